// A model and the tensors that it is fed, as a folder in the form of ONNX's own test cases: model.onnx, test_data_set_0/input_0.pb, ….
#pragma once

#include <filesystem>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "import/proto.h"
#include "smelt/sequences.h"
#include "smelt/tensor.h"

namespace smelt::fuzz {

using Random = std::mt19937_64;

struct Feed {
  std::string name;
  Tensor tensor;
};

struct OperatorCase {
  std::string name;
  onnx::ModelProto model;
  std::vector<Feed> feeds;  // of the graph's inputs that are no initializers, in their order
};

/// The folders with a model.onnx and the files *.onnx below `root`, by name.
std::vector<std::filesystem::path> list_models(const std::filesystem::path& root);

/// Reads a folder or a file. Inputs without data in the folder are made up, small. Throws Error where an input is no tensor.
OperatorCase read_case(const std::filesystem::path& path, Random& random);
/// Writes model, inputs and, where there are any, outputs: those of a sequence in one file, as its SequenceProto.
void write_case(const OperatorCase& c, const std::vector<Tensor>& outputs, const std::vector<SequenceOutput>& sequences,
                const std::filesystem::path& folder);

/// Elements as operators meet them: small numbers; now and then odd ones, where `odd`.
Tensor make_tensor(DType type, const Shape& shape, bool odd, Random& random);

/// One to four changes: extents, ranks, types and elements of what is fed; attributes, inputs and versions of nodes; nodes before and
/// behind; what is fed becomes a constant. Then the model declares extents as symbols, or as they are fed.
void mutate(OperatorCase& c, Random& random);

}  // namespace smelt::fuzz
