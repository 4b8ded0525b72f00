// What a model's file says of itself, without reading the model.
#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace smelt {

/// The metadata of an ONNX file: its graph is skipped, so that the time does not grow with it. Empty where the file is none; what
/// is wrong with it, import_model says.
std::map<std::string, std::string> metadata_of(const std::filesystem::path& model);

}  // namespace smelt
