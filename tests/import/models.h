// Models from ONNX's text syntax, and their import.
#pragma once

#include <gtest/gtest.h>
#include <onnx/defs/parser.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "import/import.h"
#include "support/errors.h"

namespace smelt::testing {

/// "<ir_version: 10, opset_import: ["" : 20]> g (float[2] x) => (float[2] y) { y = Relu(x) }"
inline onnx::ModelProto parse(const std::string& text) {
  onnx::ModelProto model;
  const auto status = onnx::OnnxParser::Parse(model, text.c_str());
  if (!status.IsOK()) throw std::runtime_error("test model: " + status.ErrorMessage());
  return model;
}

/// The graph's text under a header of this opset, com.microsoft imported too.
inline onnx::ModelProto parse(int opset, const std::string& graph) {
  return parse("<ir_version: 10, opset_import: [\"\" : " + std::to_string(opset) + ", \"com.microsoft\" : 1]> " + graph);
}

inline Graph import(const onnx::ModelProto& model, const ImportOptions& options = {}) {
  const std::string bytes = model.SerializeAsString();
  return import_model({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, "test.onnx", options);
}

/// The message of the Error that importing throws; "" when it does not throw.
inline std::string error_of(const onnx::ModelProto& model, const ImportOptions& options = {}, ExitCode* code = nullptr) {
  const std::optional<Error> e = error_from([&] { import(model, options); });
  if (e && code) *code = e->code();
  return e ? e->what() : "";
}

/// A folder of its own, removed at the end of the test.
class Folder {
 public:
  Folder()
      : path_(std::filesystem::temp_directory_path() /
              ("smelt_import_" + std::to_string(::getpid()) + "_" + std::to_string(count_++))) {
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  std::filesystem::path path() const { return path_; }
  std::filesystem::path write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path_ / name, std::ios::binary) << bytes;
    return path_ / name;
  }

 private:
  static inline int count_ = 0;
  std::filesystem::path path_;
};

/// The one live node of this operator; fails the test when there is not exactly one.
inline const Node& only(const Graph& g, std::string_view op) {
  const Node* found = nullptr;
  int n = 0;
  for (NodeId id : g.topological())
    if (g.node(id).op == op) found = &g.node(id), ++n;
  if (n != 1) throw std::runtime_error(std::to_string(n) + " nodes of " + std::string(op) + " in\n" + print(g));
  return *found;
}

inline std::vector<std::string> ops(const Graph& g) {
  std::vector<std::string> out;
  for (NodeId id : g.topological()) out.push_back(g.node(id).op);
  return out;
}

}  // namespace smelt::testing
