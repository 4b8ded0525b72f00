// NumPy's .npy and .npz files (formats 1.0 to 3.0, C order; .npz members stored or deflated).
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "smelt/tensor.h"

namespace smelt {

/// Throws Error naming the file and what is wrong with it. bfloat16 arrays (dtype '<V2', ml_dtypes) come back as bf16.
Tensor read_npy(const std::filesystem::path& path);
/// Array names as numpy gives them, without ".npy".
std::map<std::string, Tensor> read_npz(const std::filesystem::path& path);

/// bf16 and the 8-bit formats are written as raw bytes ('<V2', '|V1'), as ml_dtypes does.
void write_npy(const std::filesystem::path& path, const Tensor& t);
/// Members are stored, not compressed. The file appears whole or not at all.
void write_npz(const std::filesystem::path& path, const std::map<std::string, Tensor>& arrays);

}  // namespace smelt
