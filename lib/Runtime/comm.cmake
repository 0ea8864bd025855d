# KilnComm: sums over ranks, and the transports that carry them (no MPI at build time: its library is opened at run time). Its
# objects are part of the archive of KilnTraining, so that executables need no further archive.
file(GLOB KILN_COMM_SOURCES CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/Comm/*.cpp)
add_library(KilnComm OBJECT ${KILN_COMM_SOURCES})
target_link_libraries(KilnComm PUBLIC KilnSupport)
kiln_precompiled(KilnComm)
