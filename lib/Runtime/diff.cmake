# KilnDiff: the comparison of two executables, which it runs as processes. No BLAS, no LLVM.
file(GLOB KILN_DIFF_SOURCES CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/Diff/*.cpp)
add_library(KilnDiff STATIC ${KILN_DIFF_SOURCES})
target_link_libraries(KilnDiff PUBLIC KilnSupport)
kiln_precompiled(KilnDiff)
