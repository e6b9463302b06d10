# lr_library, lr_program, lr_test: every target of ours is made by one of these three.
#
#   lr_library(NAME base SRCS a.cc b.cc [DEPS …] [PRIVATE_DEPS …] [TORCH])   -> lr::base
#   lr_program(NAME lr-launch SRCS main.cc DEPS …)                           -> <build>/bin/lr-launch
#   lr_test(NAME base_test SRCS … DEPS … [LABELS unit] [TORCH] [ENV A=b …])  -> one ctest entry per program
#
# TORCH: the sources include LibTorch; they share one precompiled header (30 s without, 10 s with it per file).

if(LR_WORKER)
  add_library(lr_torch_pch OBJECT "${CMAKE_SOURCE_DIR}/tools/cmake/torch_pch.cc")
  target_precompile_headers(lr_torch_pch PRIVATE <torch/torch.h>)
  target_link_libraries(lr_torch_pch PRIVATE lr_flags lr_dep::torch)
endif()

function(lr_use_torch target)
  target_precompile_headers(${target} REUSE_FROM lr_torch_pch)
  target_link_libraries(${target} PUBLIC lr_dep::torch)
endfunction()

function(lr_library)
  cmake_parse_arguments(arg "TORCH" "NAME" "SRCS;DEPS;PRIVATE_DEPS" ${ARGN})
  if(arg_SRCS)
    add_library(lr_${arg_NAME} STATIC ${arg_SRCS})
    target_link_libraries(lr_${arg_NAME} PUBLIC ${arg_DEPS} PRIVATE lr_flags ${arg_PRIVATE_DEPS})
    if(arg_TORCH)
      lr_use_torch(lr_${arg_NAME})
    endif()
  else()
    add_library(lr_${arg_NAME} INTERFACE)
    target_link_libraries(lr_${arg_NAME} INTERFACE ${arg_DEPS})
  endif()
  add_library(lr::${arg_NAME} ALIAS lr_${arg_NAME})
endfunction()

function(lr_program)
  cmake_parse_arguments(arg "TORCH" "NAME" "SRCS;DEPS" ${ARGN})
  add_executable(${arg_NAME} ${arg_SRCS})
  target_link_libraries(${arg_NAME} PRIVATE lr_flags ${arg_DEPS})
  if(arg_TORCH)
    lr_use_torch(${arg_NAME})
  endif()
  install(TARGETS ${arg_NAME} RUNTIME COMPONENT training)
endfunction()

function(lr_test)
  cmake_parse_arguments(arg "TORCH" "NAME;TIMEOUT" "SRCS;DEPS;LABELS;ENV" ${ARGN})
  if(NOT arg_LABELS)
    set(arg_LABELS unit)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  add_executable(${arg_NAME} ${arg_SRCS})
  target_link_libraries(${arg_NAME} PRIVATE lr_flags ${arg_DEPS} GTest::gmock GTest::gtest_main)
  target_compile_definitions(${arg_NAME} PRIVATE LR_TEST_DATA="${CMAKE_SOURCE_DIR}/tests/data")
  if(arg_TORCH)
    lr_use_torch(${arg_NAME})
  endif()
  add_test(NAME ${arg_NAME} COMMAND ${arg_NAME})
  set_tests_properties(${arg_NAME} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT} ENVIRONMENT "${arg_ENV}")
endfunction()
