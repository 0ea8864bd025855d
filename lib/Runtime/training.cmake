# KilnTraining: the training loop over any Engine. KilnRuntime: the Engine that walks a command table, and main() of executables.

find_path(KILN_CLI11_INCLUDE CLI/CLI.hpp REQUIRED)
add_library(KilnTraining STATIC
  Training/Adapter.cpp
  Training/AdapterStart.cpp
  Training/Checkpoint.cpp
  Training/Describe.cpp
  Training/Driver.cpp
  Training/DriverChecks.cpp
  Training/DriverInputs.cpp
  Training/Engine.cpp
  Training/FixedFlags.cpp
  Training/Generate.cpp
  Training/InputTensors.cpp
  Training/Lockstep.cpp
  Training/MemoryCheck.cpp
  Training/Options.cpp
  Training/MergeAdapter.cpp
  Training/Mirrors.cpp
  Training/OutputPaths.cpp
  Training/ProcessMemory.cpp
  Training/ProgramInputs.cpp
  Training/RateFlags.cpp
  Training/Ranks.cpp
  Training/Records.cpp
  Training/Resume.cpp
  Training/LossScale.cpp
  Training/NonFinite.cpp
  Training/Schedule.cpp
  Training/States.cpp
  Training/StepTensors.cpp
  Training/Trace.cpp
  Training/TrainingInfo.cpp
  Training/TrainingRun.cpp
  Training/Trajectory.cpp
  Training/WholeStates.cpp)
target_include_directories(KilnTraining SYSTEM PRIVATE ${KILN_CLI11_INCLUDE})
target_sources(KilnTraining PRIVATE $<TARGET_OBJECTS:KilnComm>)
target_link_libraries(KilnTraining PUBLIC KilnFiles ${CMAKE_DL_LIBS})

# The OpenMP build of OpenBLAS, which takes its number of threads per calling thread, and libgomp, by which the runtime sets it to
# one and reads what OMP_PROC_BIND and OMP_THREAD_LIMIT ask for. The team of threads is the runtime's own.
find_library(KILN_OPENBLAS openblas PATH_SUFFIXES openblas-openmp REQUIRED
  HINTS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/openblas-openmp NO_CMAKE_SYSTEM_PATH)
find_path(KILN_CBLAS_INCLUDE cblas.h PATH_SUFFIXES openblas-openmp REQUIRED
  HINTS /usr/include/${CMAKE_LIBRARY_ARCHITECTURE}/openblas-openmp)
find_library(KILN_GOMP NAMES libgomp.so.1 gomp REQUIRED)

# The GEMMs and the team of threads, which kiln-measure runs too.
add_library(KilnGemm OBJECT
  Engine/AmxGemm.cpp
  Engine/Avx512Gemm.cpp
  Engine/CpuFeatures.cpp
  Engine/Gemm.cpp
  Engine/GemmTiles.cpp
  Engine/LowPrecisionGemm.cpp
  Engine/NarrowRows.cpp
  Engine/ProcessorShare.cpp
  Engine/Processors.cpp
  Engine/ThreadTeam.cpp
  Engine/TileEpilogue.cpp
  Engine/WaitPolicy.cpp)
target_include_directories(KilnGemm SYSTEM PRIVATE ${KILN_CBLAS_INCLUDE})
target_link_libraries(KilnGemm PUBLIC KilnSupport ${KILN_OPENBLAS} ${KILN_GOMP})

# Everything else but main(), so that tests can link it.
add_library(KilnEngine OBJECT
  Engine/AllocationCounter.cpp
  Engine/Arena.cpp
  Engine/CommandEngine.cpp
  Engine/AttentionReader.cpp
  Engine/Command.cpp
  Engine/CommandReader.cpp
  Engine/CommandTable.cpp
  Engine/CommandWalk.cpp
  Engine/Transfers.cpp
  Engine/CollectiveReader.cpp
  Engine/Collectives.cpp
  Engine/TransferEngine.cpp
  Engine/TransferOrder.cpp
  Engine/TransferStress.cpp
  Engine/DescriptionParser.cpp
  Engine/LaunchGroups.cpp
  Engine/MemoryBlocks.cpp
  Engine/OpRepeat.cpp
  Engine/OpTrace.cpp
  Engine/PlanCheck.cpp
  Engine/Program.cpp
  Engine/QueueReader.cpp
  Engine/RankProcessors.cpp
  Engine/RefReader.cpp
  Engine/ResultDistance.cpp
  Engine/Roles.cpp
  Engine/SegmentReader.cpp
  Engine/SlotReader.cpp
  Engine/WriteWatch.cpp
  Engine/WrittenPages.cpp
  Engine/WrittenStates.cpp)
target_link_libraries(KilnEngine PUBLIC KilnGemm KilnTraining)

add_library(KilnRuntime STATIC Engine/Executable.cpp Engine/Main.cpp)
target_link_libraries(KilnRuntime PUBLIC KilnEngine)
target_sources(KilnRuntime PRIVATE $<TARGET_OBJECTS:KilnGemm> $<TARGET_OBJECTS:KilnEngine>)
kiln_precompiled(KilnTraining KilnGemm KilnEngine KilnRuntime)
