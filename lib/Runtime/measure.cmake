# kiln-measure: what kilnc --measure-machine runs. It is made of the pieces that executables are made of.
file(GLOB KILN_MEASURE_SOURCES CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/Measure/*.cpp)
add_executable(kiln-measure ${KILN_MEASURE_SOURCES})
target_include_directories(kiln-measure SYSTEM PRIVATE ${KILN_CBLAS_INCLUDE})
# Generated kernels use fused products too.
set_source_files_properties(Measure/MemoryRates.cpp PROPERTIES COMPILE_OPTIONS "-O3;-ffp-contract=fast")
target_link_libraries(kiln-measure PRIVATE KilnGemm KilnSupport)
