# Language level, warnings, sanitizers, compiler cache and linker: the same for every target of ours.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

find_program(LR_CCACHE ccache)
if(LR_CCACHE)
  # Hits are shared between clones: paths are made relative to the source folder and the working folder is not hashed.
  set(launcher
      ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime CCACHE_MAXSIZE=10G
      ${LR_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_C_COMPILER_LAUNCHER ${launcher})
endif()

find_program(LR_MOLD mold)
if(LR_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

add_library(lr_flags INTERFACE)
target_include_directories(lr_flags INTERFACE "${CMAKE_SOURCE_DIR}" "${CMAKE_BINARY_DIR}")
target_compile_options(lr_flags INTERFACE -Wall -Wextra -Wno-unused-parameter)
if(LR_WERROR)
  target_compile_options(lr_flags INTERFACE -Werror)
endif()
if(LR_SANITIZE)
  target_compile_options(lr_flags INTERFACE -fsanitize=${LR_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(lr_flags INTERFACE -fsanitize=${LR_SANITIZE})
  set(LR_TEST_ENVIRONMENT "LR_SANITIZE=${LR_SANITIZE}")
  if(LR_SANITIZE STREQUAL "thread")
    list(APPEND LR_TEST_ENVIRONMENT "TSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tools/lint/tsan.supp ignore_noninstrumented_modules=1")
  endif()
endif()
find_package(Threads REQUIRED)
target_link_libraries(lr_flags INTERFACE Threads::Threads)
