# Every third-party library, once, under the name lr_dep::<what>. Installed by tools/setup.sh, nowhere else.
find_package(PkgConfig REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(Protobuf REQUIRED)
pkg_check_modules(grpcpp REQUIRED IMPORTED_TARGET grpc++)
pkg_check_modules(crypto REQUIRED IMPORTED_TARGET libcrypto) # comes with gRPC
find_program(LR_GRPC_PLUGIN grpc_cpp_plugin REQUIRED)

add_library(lr_dep_fmt INTERFACE)
target_link_libraries(lr_dep_fmt INTERFACE fmt::fmt)
add_library(lr_dep::fmt ALIAS lr_dep_fmt)

add_library(lr_dep_spdlog INTERFACE)
target_link_libraries(lr_dep_spdlog INTERFACE spdlog::spdlog)
add_library(lr_dep::spdlog ALIAS lr_dep_spdlog)

add_library(lr_dep_json INTERFACE)
target_link_libraries(lr_dep_json INTERFACE nlohmann_json::nlohmann_json)
add_library(lr_dep::json ALIAS lr_dep_json)

add_library(lr_dep_yaml INTERFACE)
target_link_libraries(lr_dep_yaml INTERFACE yaml-cpp)
add_library(lr_dep::yaml ALIAS lr_dep_yaml)

add_library(lr_dep_grpc INTERFACE)
target_link_libraries(lr_dep_grpc INTERFACE PkgConfig::grpcpp protobuf::libprotobuf absl_synchronization)
add_library(lr_dep::grpc ALIAS lr_dep_grpc)

add_library(lr_dep_crypto INTERFACE)
target_link_libraries(lr_dep_crypto INTERFACE PkgConfig::crypto)
add_library(lr_dep::crypto ALIAS lr_dep_crypto)

add_library(lr_dep_asio INTERFACE) # header-only Boost.Asio
target_compile_definitions(lr_dep_asio INTERFACE BOOST_ASIO_NO_DEPRECATED BOOST_ERROR_CODE_HEADER_ONLY)
add_library(lr_dep::asio ALIAS lr_dep_asio)

if(LR_WORKER)
  set(LR_DEPS "${CMAKE_SOURCE_DIR}/.deps" CACHE PATH "Folder of the wheels fetched by tools/setup.sh")
  if(NOT EXISTS "${LR_DEPS}/include/torch")
    message(FATAL_ERROR "LibTorch is missing in ${LR_DEPS}: run tools/setup.sh (or use the preset 'control', which needs none)")
  endif()
  set(torch "${LR_DEPS}/torch")
  # In the build tree the libraries are found in .deps; installed programs find copies beside them (lib/lr, same layout).
  set(CMAKE_BUILD_RPATH "${torch}/lib" "${LR_DEPS}/nvidia/cu13/lib" "${LR_DEPS}/pyarrow")
  set(CMAKE_INSTALL_RPATH "$ORIGIN/../lib/lr/torch/lib" "$ORIGIN/../lib/lr/nvidia/cu13/lib" "$ORIGIN/../lib/lr/pyarrow")
  install(FILES "${torch}/lib/libtorch_cpu.so" "${torch}/lib/libc10.so" "${torch}/lib/libgomp.so.1"
          DESTINATION lib/lr/torch/lib COMPONENT training)
  install(FILES "${LR_DEPS}/nvidia/cu13/lib/libcudart.so.13" "${LR_DEPS}/nvidia/cu13/lib/libcupti.so.13"
          DESTINATION lib/lr/nvidia/cu13/lib COMPONENT training)
  install(FILES "${LR_DEPS}/pyarrow/libarrow.so.2600" "${LR_DEPS}/pyarrow/libparquet.so.2600"
          DESTINATION lib/lr/pyarrow COMPONENT training)
  add_library(lr_dep_torch INTERFACE)
  target_include_directories(lr_dep_torch SYSTEM INTERFACE "${LR_DEPS}/include/torch" "${LR_DEPS}/include/torch/torch/csrc/api/include")
  target_compile_definitions(lr_dep_torch INTERFACE USE_DISTRIBUTED USE_C10D_GLOO)
  # LibTorch registers operators in static initialisers: it must be linked even where no symbol is named.
  target_link_options(lr_dep_torch INTERFACE "-Wl,--push-state,--no-as-needed" "${torch}/lib/libtorch_cpu.so" "${torch}/lib/libc10.so" "-Wl,--pop-state"
                      "-Wl,--unresolved-symbols=ignore-in-shared-libs")
  # For the few sources that name CUDA or NCCL; all others compile alike with and without it.
  add_library(lr_dep_nccl INTERFACE)
  add_library(lr_dep::nccl ALIAS lr_dep_nccl)
  if(LR_CUDA)
    find_package(CUDAToolkit REQUIRED)
    target_compile_definitions(lr_dep_nccl INTERFACE USE_C10D_NCCL LR_CUDA)
    target_include_directories(lr_dep_nccl SYSTEM INTERFACE ${CUDAToolkit_INCLUDE_DIRS})
    target_link_options(lr_dep_torch INTERFACE "-Wl,--push-state,--no-as-needed" "${torch}/lib/libtorch_cuda.so"
                        "${torch}/lib/libc10_cuda.so" "-Wl,--pop-state")
    target_link_libraries(lr_dep_torch INTERFACE CUDA::cudart)
  endif()
  add_library(lr_dep::torch ALIAS lr_dep_torch)

  add_library(lr_dep_arrow INTERFACE)
  target_include_directories(lr_dep_arrow SYSTEM INTERFACE "${LR_DEPS}/include/arrow")
  target_link_libraries(lr_dep_arrow INTERFACE "${LR_DEPS}/pyarrow/libparquet.so.2600" "${LR_DEPS}/pyarrow/libarrow.so.2600")
  add_library(lr_dep::arrow ALIAS lr_dep_arrow)

  pkg_check_modules(ffmpeg REQUIRED IMPORTED_TARGET libavformat libavcodec libswscale libavutil)
  add_library(lr_dep_ffmpeg INTERFACE)
  target_link_libraries(lr_dep_ffmpeg INTERFACE PkgConfig::ffmpeg)
  add_library(lr_dep::ffmpeg ALIAS lr_dep_ffmpeg)
endif()

if(LR_TESTS)
  find_package(GTest REQUIRED)
endif()
