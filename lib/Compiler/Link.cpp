//===- Link.cpp - Linking of executables ------------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Link.h"

#include "WriteOutput.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;
using namespace kiln;

namespace {

/// A temporary directory. The destructor removes it with all its files.
class TemporaryDirectory {
public:
  std::error_code create() {
    return sys::fs::createUniqueDirectory("kilnc", path);
  }
  ~TemporaryDirectory() {
    if (!path.empty())
      (void)sys::fs::remove_directories(path);
  }
  std::string file(StringRef name) const {
    SmallString<128> full(path);
    sys::path::append(full, name);
    return full.str().str();
  }

private:
  SmallString<128> path;
};

} // namespace

/// Writes a temporary input file of the linker.
static Status writeTemporary(const std::string &path, StringRef contents) {
  std::error_code failure;
  raw_fd_ostream stream(path, failure);
  if (!failure) {
    stream << contents;
    stream.close();
    failure = stream.error();
    stream.clear_error();
  }
  if (failure)
    return Status::error("cannot write the temporary file '" + path +
                         "': " + failure.message());
  return Status();
}

/// Returns the first line of the linker's output that contains "error", or the
/// first line if none does.
static std::string firstError(StringRef log) {
  SmallVector<StringRef> lines;
  log.split(lines, '\n', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
  auto found = find_if(
      lines, [](StringRef line) { return line.contains_insensitive("error"); });
  StringRef line = found != lines.end() ? *found
                   : lines.empty()      ? StringRef()
                                        : lines.front();
  return line.trim().take_front(400).str();
}

/// Returns assembly that defines the symbols which the runtime's main()
/// expects: the kernel table, the device images and the description.
static std::string assemblyOf(const LinkInput &input,
                              ArrayRef<std::string> imageFiles,
                              const std::string &descriptionFile) {
  std::string text;
  raw_string_ostream stream(text);
  stream << "  .section .data.rel.ro,\"aw\"\n  .p2align 3\n"
         << "  .globl kiln_kernel_table\nkiln_kernel_table:\n";
  for (auto [i, kernel] : enumerate(input.kernels)) {
    if (kernel.inImage)
      stream << "  .quad .Lname" << i << "\n";
    else
      stream << "  .quad \"" << kernel.name << "\"\n";
  }
  stream << "  .quad 0\n";
  if (input.images) {
    stream << "  .globl kiln_gpu_images\nkiln_gpu_images:\n";
    for (auto [i, image] : enumerate(*input.images))
      stream << "  .quad " << image.architecture << ", " << image.isPtx
             << ", .Limage" << i << ", .Limage_end" << i << " - .Limage" << i
             << "\n";
  }
  stream << "  .section .rodata\n";
  for (auto [i, kernel] : enumerate(input.kernels))
    if (kernel.inImage)
      stream << ".Lname" << i << ":\n  .asciz \"" << kernel.name << "\"\n";
  if (input.images) {
    stream << "  .p2align 3\n  .globl kiln_gpu_image_count\n"
           << "kiln_gpu_image_count:\n  .quad " << input.images->size() << "\n";
    // PTX must be terminated by a zero byte.
    for (auto [i, file] : enumerate(imageFiles))
      stream << "  .p2align 6\n.Limage" << i << ":\n  .incbin \"" << file
             << "\"\n  .byte 0\n.Limage_end" << i << ":\n";
  }
  stream << "  .p2align 3\n"
         << "  .globl kiln_kernel_count\nkiln_kernel_count:\n  .quad "
         << input.kernels.size() << "\n"
         << "  .globl kiln_program_json_size\nkiln_program_json_size:\n  .quad "
            "1f - kiln_program_json\n"
         << "  .globl kiln_program_json\nkiln_program_json:\n  .incbin \""
         << descriptionFile << "\"\n1:\n"
         << "  .section .note.GNU-stack,\"\",@progbits\n";
  return text;
}

Status kiln::linkExecutable(const LinkInput &input) {
  TemporaryDirectory directory;
  if (std::error_code failure = directory.create())
    return Status::error("cannot create a temporary folder: " +
                         failure.message());
  std::string json = directory.file("program.json"),
              assembly = directory.file("program.s"),
              log = directory.file("link.log");
  std::vector<std::pair<std::string, std::string>> files = {
      {json, input.description.str()}};
  std::vector<std::string> objects;
  for (const SmallVector<char, 0> &object : input.objects) {
    objects.push_back(
        directory.file("kernel" + std::to_string(objects.size()) + ".o"));
    files.push_back(
        {objects.back(), std::string(object.begin(), object.end())});
  }
  std::vector<std::string> images;
  if (input.images)
    for (const DeviceImage &image : *input.images) {
      images.push_back(directory.file("image" + std::to_string(images.size())));
      files.push_back({images.back(), image.bytes});
    }
  files.push_back({assembly, assemblyOf(input, images, json)});
  for (auto &[path, contents] : files)
    if (Status status = writeTemporary(path, contents); !status.ok())
      return status;

  auto driver = sys::findProgramByName(KILN_LINK_DRIVER);
  if (!driver)
    driver = sys::findProgramByName("clang");
  if (!driver)
    return Status::error("cannot find the compiler driver '" KILN_LINK_DRIVER
                         "' to link with; install clang-22");
  // Do not map the output file. If the disk is full, a write to a mapped file
  // kills the linker with a signal.
  std::string linked = directory.file("linked");
  std::vector<std::string> arguments = {
      *driver, "-fuse-ld=lld", "-Wl,--no-mmap-output-file",
      "-o",    linked,         assembly};
  append_range(arguments, objects);
  // The linker takes main() from the first archive that defines it, so the
  // archives of the target come first.
  std::vector<StringRef> libraries(input.archives.begin(),
                                   input.archives.end());
  libraries.insert(libraries.end(), {"libKilnRuntime.a", "libKilnTraining.a",
                                     "libKilnFiles.a", "libKilnSupport.a"});
  for (StringRef library : libraries) {
    SmallString<128> path(input.libraryDirectory);
    sys::path::append(path, library);
    if (!sys::fs::exists(path))
      return Status::error("cannot find the runtime library '" +
                           path.str().str() + "'; build all targets of kiln");
    arguments.push_back(path.str().str());
  }
  for (StringRef library : {KILN_RUNTIME_LIBRARIES}) {
    arguments.push_back(library.str());
    arguments.push_back("-Wl,-rpath," + sys::path::parent_path(library).str());
  }
  for (StringRef argument : {"-lstdc++", "-lm", "-pthread"})
    arguments.push_back(argument.str());

  std::vector<StringRef> views(arguments.begin(), arguments.end());
  std::optional<StringRef> redirects[] = {StringRef(), StringRef(log),
                                          StringRef(log)};
  std::string error;
  int code = sys::ExecuteAndWait(*driver, views, std::nullopt, redirects, 0, 0,
                                 &error);
  if (code != 0) {
    auto said = MemoryBuffer::getFile(log);
    if (error.empty() && said)
      error = firstError((*said)->getBuffer());
    return Status::error(
        "linking '" + input.output.str() + "' failed: " +
        (error.empty() ? "exit code " + std::to_string(code) : error));
  }
  auto executable = MemoryBuffer::getFile(linked, /*IsText=*/false,
                                          /*RequiresNullTerminator=*/false);
  if (!executable)
    return Status::error("cannot read the linked executable: " +
                         executable.getError().message());
  return writeOutput(input.output.str(), (*executable)->getBuffer(),
                     /*isExecutable=*/true);
}
