// The readers behind read_timings(), one for each origin.
#pragma once

#include <nlohmann/json.hpp>

#include "profile/timings.h"

namespace smelt::profile {

/// What lies deeper belongs to the module at that depth: the names of n levels have n^2 letters.
constexpr size_t deepest_scope = 100;

constexpr size_t longest_scope = 2000;  // bytes of all levels, which every row has again

/// Adds the levels of a label, which may be a path, as far as a scope goes.
void add_levels(std::vector<std::string>& scope, std::string_view label);
/// Levels as modules call them, where exporters repeat the outer ones: {"layer1", "layer1.0", "layer1.0.conv"} → {"layer1", "0",
/// "conv"}.
std::vector<std::string> own_names(std::vector<std::string> levels);
/// "/layer1/layer1.0/conv/Conv" → {"layer1", "0", "conv"}: exporters name nodes by their modules.
std::vector<std::string> scope_of_name(const std::string& name);

/// The text at a key; empty where there is none.
std::string text_of(const nlohmann::json& object, const char* key);
/// What all of these have in common, from the outside in.
std::vector<std::string> common(const std::vector<std::vector<std::string>>& scopes);
/// What is wrong, without the library's number of it.
std::string_view words(const nlohmann::json::exception& e);

/// nlohmann's own errors come out of these; read_timings() says which file they are of.
Timings from_smelt(const nlohmann::json& report);
Timings from_pytorch(const nlohmann::json& trace);
Timings from_onnxruntime(const nlohmann::json& events);
Timings from_trtexec(const nlohmann::json& profile, const nlohmann::json* layers);
Timings from_nsight(const std::filesystem::path& database);

}  // namespace smelt::profile
