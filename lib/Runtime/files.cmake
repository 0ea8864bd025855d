# KilnFiles: readers and writers of the files that only training uses. No BLAS, no LLVM.
file(GLOB KILN_FILES_SOURCES CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/Files/*.cpp)
add_library(KilnFiles STATIC ${KILN_FILES_SOURCES})
target_link_libraries(KilnFiles PUBLIC KilnSupport)
kiln_precompiled(KilnFiles)
