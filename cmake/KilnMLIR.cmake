# Finds LLVM and MLIR 22 and defines how kiln's compiler libraries are built: against the shared MLIR and LLVM libraries.

find_package(MLIR 22.1 REQUIRED CONFIG HINTS /usr/lib/llvm-22/lib/cmake/mlir)
list(APPEND CMAKE_MODULE_PATH "${MLIR_CMAKE_DIR}" "${LLVM_CMAKE_DIR}")
include(TableGen)
include(AddLLVM)
include(AddMLIR)

include_directories(SYSTEM ${MLIR_INCLUDE_DIRS}) # mlir_tablegen takes its include paths from here
include_directories(${CMAKE_SOURCE_DIR}/include)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

# kiln_add_library(NAME [PCH Kernel] LINK libs... DEPENDS targets...): a static compiler library of all sources of its folder and the
# folders in it. It is built without exceptions and RTTI, as LLVM is, with a precompiled header of the headers that nearly every file
# includes, and with `PCH Kernel` also of the dialects of kernels.
function(kiln_add_library name)
  cmake_parse_arguments(ARG "" "PCH" "LINK;DEPENDS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  if(NOT sources)
    set(sources ${CMAKE_BINARY_DIR}/KilnPch.cpp)
  endif()
  add_library(${name} STATIC ${sources})
  kiln_compiler_target(${name} Kiln${ARG_PCH}Pch)
  target_include_directories(${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_link_libraries(${name} PUBLIC ${ARG_LINK})
  if(ARG_DEPENDS)
    add_dependencies(${name} ${ARG_DEPENDS})
  endif()
endfunction()

# kiln_list_kernels(NAME FOLDER): writes FOLDER/KernelFiles.inc, which contains KILN_KERNEL_FILE(Foo) for each file
# FooKernel.cpp in the current source folder, and adds its location to the include path of the target NAME. See
# kiln/Target/Common/EmitterTable.h.
function(kiln_list_kernels name folder)
  file(GLOB files CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR}/*Kernel.cpp)
  list(TRANSFORM files REPLACE "(.*)Kernel\\.cpp" "KILN_KERNEL_FILE(\\1)\n")
  list(JOIN files "" lines)
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${folder}/KernelFiles.inc CONTENT "${lines}")
  target_include_directories(${name} PRIVATE ${CMAKE_CURRENT_BINARY_DIR})
endfunction()

function(kiln_add_tool name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  kiln_compiler_executable(${name} KilnPch)
  target_link_libraries(${name} PRIVATE ${ARG_LINK})
endfunction()

# kiln_add_compiler_test(NAME [PCH Kernel] [TIMEOUT seconds] sources... LINK libs...): a test program that links compiler libraries, and the
# time that each of its tests may take.
function(kiln_add_compiler_test name)
  cmake_parse_arguments(ARG "" "PCH;TIMEOUT" "LINK" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  kiln_compiler_executable(${name} Kiln${ARG_PCH}TestPch)
  target_link_libraries(${name} PRIVATE ${ARG_LINK} GTest::gtest_main)
  if(ARG_TIMEOUT)
    set(timeout PROPERTIES TIMEOUT ${ARG_TIMEOUT})
  endif()
  gtest_discover_tests(${name} ${timeout})
endfunction()

# Compiled as the libraries are (-fPIC, not -fPIE), since it shares their precompiled header.
function(kiln_compiler_executable name header)
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${name} PRIVATE -fPIC)
  kiln_compiler_target(${name} ${header})
endfunction()

# kiln_compiler_target(NAME HEADER): the options of targets that use LLVM and MLIR, and the precompiled header of the target HEADER.
function(kiln_compiler_target name header)
  target_include_directories(${name} SYSTEM PUBLIC ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR}/include ${CMAKE_BINARY_DIR}/include)
  target_compile_options(${name} PRIVATE -fno-exceptions -fno-rtti)
  target_link_libraries(${name} PUBLIC MLIR LLVM)
  # Tests spend less time in their own code than the optimizer does on it.
  if(header MATCHES TestPch)
    target_compile_options(${name} PRIVATE $<$<NOT:$<CONFIG:Debug>>:-O1>)
  endif()
  if(NOT name STREQUAL header)
    target_precompile_headers(${name} REUSE_FROM ${header})
  endif()
endfunction()

# kiln_precompile(NAME headers...): a library that exists for its precompiled header. The dialect is part of it: most of the time of
# compiling a file is spent on its generated declarations.
function(kiln_precompile name)
  file(WRITE ${CMAKE_BINARY_DIR}/${name}.cpp "")
  add_library(${name} STATIC ${CMAKE_BINARY_DIR}/${name}.cpp)
  kiln_compiler_target(${name} ${name})
  add_dependencies(${name} KilnIRIncGen)
  # The header that CMake generates is newer than a precompiled one from a compiler cache, which clang would refuse.
  target_compile_options(${name} PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
  target_precompile_headers(${name} PRIVATE
    <mlir/IR/Builders.h> <mlir/IR/BuiltinAttributes.h> <mlir/IR/BuiltinOps.h> <mlir/IR/BuiltinTypes.h> <mlir/IR/Dialect.h>
    <mlir/IR/Matchers.h> <mlir/IR/OpDefinition.h> <mlir/IR/OpImplementation.h> <mlir/IR/PatternMatch.h>
    <mlir/IR/SymbolTable.h> <mlir/Interfaces/FunctionInterfaces.h> <mlir/Interfaces/SideEffectInterfaces.h>
    <mlir/Interfaces/ControlFlowInterfaces.h> <mlir/Bytecode/BytecodeOpInterface.h> <mlir/Pass/Pass.h> <llvm/ADT/TypeSwitch.h>
    <llvm/ADT/MapVector.h> <llvm/ADT/StringExtras.h> "${CMAKE_SOURCE_DIR}/include/kiln/Dialect/Kiln/IR/Kiln.h" ${ARGN})
endfunction()
set(KILN_KERNEL_HEADERS <mlir/Dialect/Arith/IR/Arith.h> <mlir/Dialect/GPU/IR/GPUDialect.h> <mlir/Dialect/LLVMIR/LLVMDialect.h>
  <mlir/Dialect/LLVMIR/NVVMDialect.h> <mlir/Dialect/SCF/IR/SCF.h> <mlir/Dialect/Vector/IR/VectorOps.h>
  <mlir/IR/ImplicitLocOpBuilder.h>)
kiln_precompile(KilnPch)
kiln_precompile(KilnKernelPch ${KILN_KERNEL_HEADERS})
if(KILN_BUILD_TESTS)
  kiln_precompile(KilnTestPch <gtest/gtest.h>)
  kiln_precompile(KilnKernelTestPch ${KILN_KERNEL_HEADERS} <gtest/gtest.h>)
  foreach(header KilnTestPch KilnKernelTestPch)
    target_link_libraries(${header} PUBLIC GTest::gtest)
  endforeach()
endif()
