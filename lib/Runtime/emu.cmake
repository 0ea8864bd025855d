# KilnEmu: the emulated GPU that runs the kernels of --target=cuda-emu. No BLAS, no OpenMP, no LLVM.
file(GLOB KILN_EMU_SOURCES CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/Emu/*.cpp)
add_library(KilnEmu STATIC ${KILN_EMU_SOURCES})
target_link_libraries(KilnEmu PUBLIC KilnSupport)
kiln_precompiled(KilnEmu)
