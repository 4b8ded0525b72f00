// Where tests find files. Only paths.cpp is compiled with the folders' names: all else compiles to the same objects in every clone.
#pragma once

#include <filesystem>
#include <string>

namespace smelt {

/// The repository's root.
std::filesystem::path source_dir();
/// The build folder.
std::filesystem::path build_dir();
/// The Python that the build was configured with: it has the onnx wheel.
std::string python();

}  // namespace smelt
