# KilnFiles: readers and writers of the files that only training uses. No BLAS, no LLVM.
file(GLOB KILN_FILES_SOURCES CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/Files/*.cpp)
add_library(KilnFiles STATIC ${KILN_FILES_SOURCES})
# glibc declares renameat2 and O_CLOEXEC only with this.
target_compile_definitions(KilnFiles PRIVATE _GNU_SOURCE)
target_link_libraries(KilnFiles PUBLIC KilnSupport)
