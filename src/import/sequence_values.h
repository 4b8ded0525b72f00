// What resolve_sequences() knows of a graph's values: types, constants, and what sequences and optional values hold.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "import/proto.h"

namespace smelt::importer {

inline constexpr size_t longest_sequence = 4096;  // of one that is taken apart

/// A value that is no tensor, and what it holds.
struct Known {
  bool is_optional = false;
  bool has = true;             // an optional value: there is one
  bool holds_sequence = true;  // false: an optional tensor, the only item
  std::string stack{};         // of a sequence as long as a run finds: all its items, along a new first axis; `items` is empty
  std::vector<std::string> items;
};

/// A graph's values, and those of the graphs around it.
struct Scope {
  const Scope* outer = nullptr;
  std::map<std::string, Known> known;
  std::map<std::string, onnx::TypeProto> types;
  std::map<std::string, onnx::TensorProto> constants;

  template <class T> const T* find(std::map<std::string, T> Scope::*members, const std::string& name) const {
    for (const Scope* s = this; s; s = s->outer)
      if (const auto at = (s->*members).find(name); at != (s->*members).end()) return &at->second;
    return nullptr;
  }

  const onnx::TypeProto::Tensor* tensor_type(const std::string& name) const;
  std::optional<int64_t> rank(const std::string& name) const;
  std::optional<int64_t> extent(const std::string& name, int64_t axis) const;
  /// A constant's integers.
  std::optional<Tensor> constant(const std::string& name, const Loaded& model) const;
};

/// The scope of a graph before its nodes: its inputs, initializers, and all that inference has found.
Scope scope_of(const onnx::GraphProto& g, const Scope* outer);
/// Notes the value of a Constant node.
void note_constant(const onnx::NodeProto& n, Scope& scope);

}  // namespace smelt::importer
