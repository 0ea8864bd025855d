# kiln_add_precompiled(NAME headers...): a library that exists for its precompiled header, for code that does not use LLVM.
function(kiln_add_precompiled name)
  file(WRITE ${CMAKE_BINARY_DIR}/${name}.cpp "")
  add_library(${name} STATIC ${CMAKE_BINARY_DIR}/${name}.cpp)
  # The header that CMake generates is newer than a precompiled one from a compiler cache, which clang would refuse.
  target_compile_options(${name} PRIVATE "$<$<CXX_COMPILER_ID:Clang>:SHELL:-Xclang -fno-pch-timestamp>")
  target_precompile_headers(${name} PRIVATE ${ARGN})
  set_target_properties(${name} PROPERTIES PCH_INSTANTIATE_TEMPLATES ON)
endfunction()

# The standard headers and the JSON library take about half of the time of compiling a file of the runtime.
kiln_add_precompiled(KilnStdPch
  <algorithm> <array> <charconv> <chrono> <cmath> <cstring> <filesystem> <fstream> <functional> <map> <memory> <optional> <set>
  <string> <string_view> <thread> <unordered_map> <vector> <nlohmann/json.hpp>)

# kiln_precompiled(NAME...): these libraries use KilnStdPch.
function(kiln_precompiled)
  foreach(name ${ARGN})
    target_precompile_headers(${name} REUSE_FROM KilnStdPch)
  endforeach()
endfunction()
