# KilnGpuEngine: what the engines of --target=cuda-emu and --target=cuda share.
add_library(KilnGpuEngine OBJECT Gpu/BufferNames.cpp Gpu/StreamOrder.cpp Gpu/StreamProgram.cpp)
target_include_directories(KilnGpuEngine PRIVATE Engine)
target_link_libraries(KilnGpuEngine PUBLIC KilnTraining)

# KilnEmuRuntime: the engine of --target=cuda-emu, and main() of its executables. On a link line it comes before KilnRuntime, so
# that its main() is taken; KilnEmu, the device, follows it.
add_library(KilnEmuEngine OBJECT Gpu/EmuEngine.cpp Gpu/EmuExecutor.cpp Gpu/FirstTouches.cpp)
target_include_directories(KilnEmuEngine PRIVATE Emu Engine)
target_link_libraries(KilnEmuEngine PUBLIC KilnEmu KilnTraining)

add_library(KilnEmuRuntime STATIC Gpu/EmuMain.cpp $<TARGET_OBJECTS:KilnGpuEngine> $<TARGET_OBJECTS:KilnEmuEngine>)
target_include_directories(KilnEmuRuntime PRIVATE Engine)
target_link_libraries(KilnEmuRuntime PUBLIC KilnEmu KilnRuntime)
kiln_precompiled(KilnGpuEngine KilnEmuEngine KilnEmuRuntime)
