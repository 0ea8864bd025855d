# The precompiled header of libraries that do not use LLVM: the standard headers and the JSON library, which take about half of the
# time of compiling such a file.
file(WRITE ${CMAKE_BINARY_DIR}/KilnStdPch.cpp "")
add_library(KilnStdPch STATIC ${CMAKE_BINARY_DIR}/KilnStdPch.cpp)
# The header that CMake generates is newer than a precompiled one from a compiler cache, which clang would refuse.
target_compile_options(KilnStdPch PRIVATE "$<$<CXX_COMPILER_ID:Clang>:SHELL:-Xclang -fno-pch-timestamp>")
set_target_properties(KilnStdPch PROPERTIES PCH_INSTANTIATE_TEMPLATES ON)
target_precompile_headers(KilnStdPch PRIVATE
  <algorithm> <array> <charconv> <chrono> <cmath> <cstring> <filesystem> <fstream> <functional> <map> <memory> <optional> <set>
  <string> <string_view> <thread> <unordered_map> <vector> <nlohmann/json.hpp>)

# kiln_precompiled(NAME...): these libraries use the header.
function(kiln_precompiled)
  foreach(name ${ARGN})
    target_precompile_headers(${name} REUSE_FROM KilnStdPch)
  endforeach()
endfunction()
