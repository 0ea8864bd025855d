# KilnCudaRuntime: the engine of --target=cuda, and main() of its executables. On a link line it comes before KilnRuntime, so
# that its main() is taken. Nothing of CUDA is needed to build it: the driver and its libraries are opened at run time.
file(GLOB KILN_CUDA_SOURCES CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/Cuda/*.cpp)
list(REMOVE_ITEM KILN_CUDA_SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/Cuda/CudaMain.cpp)
add_library(KilnCudaEngine OBJECT ${KILN_CUDA_SOURCES})
target_include_directories(KilnCudaEngine PRIVATE Comm Engine Gpu)
target_link_libraries(KilnCudaEngine PUBLIC KilnTraining)

add_library(KilnCudaRuntime STATIC Cuda/CudaMain.cpp $<TARGET_OBJECTS:KilnGpuEngine> $<TARGET_OBJECTS:KilnCudaEngine>)
target_include_directories(KilnCudaRuntime PRIVATE Engine)
target_link_libraries(KilnCudaRuntime PUBLIC KilnRuntime ${CMAKE_DL_LIBS})
kiln_precompiled(KilnCudaEngine KilnCudaRuntime)
