// The shape of a node, for tests that print or compile kernels and run nothing.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "device/cuda/compiler.h"
#include "ops/core/tactic.h"

namespace smelt::ops {

/// A node with tensors of these types and shapes; nothing is computed.
struct Form {
  Node node;
  BoundNode bound;
  std::string_view arch = {};   // the only one that has kernels of it; empty: all have
  std::string_view lacks = {};  // one that has none
  bool has_kernels_on(std::string_view a) const { return (arch.empty() || arch == a) && a != lacks; }

  Form(std::string op, std::string_view domain, std::map<std::string, Attribute> attributes = {},
       const std::string& program = {}) {
    node.op = std::move(op);
    node.domain = domain;
    node.attrs = std::move(attributes);
    if (!program.empty()) node.program = expr::Program::parse(program);
  }
  Form& in(DType type, Shape shape, Layout layout = Layout::plain) {
    node.inputs.push_back(type == DType::undefined ? ValueId::none : ValueId(static_cast<int>(node.inputs.size())));
    bound.inputs.push_back({type, std::move(shape), layout, {}, {}});
    return *this;
  }
  Form& in(Tensor constant) {
    in(constant.type(), constant.shape());
    bound.inputs.back().constant = std::move(constant);
    return *this;
  }
  Form& out(DType type, Shape shape, Layout layout = Layout::plain) {
    node.outputs.push_back(ValueId(100 + static_cast<int>(node.outputs.size())));
    bound.outputs.push_back({type, std::move(shape), layout, {}, {}});
    return *this;
  }
  /// The count of what is found (ops/core/data_dependent.h).
  Form& count() {
    bound.outputs.push_back({DType::i64, {1}, Layout::plain, {}, {}});
    return *this;
  }
};

/// The entries of a source, as the compiler would report them; nothing is compiled.
device::cuda::Cubin uncompiled(const device::cuda::Source& source);

/// Of a form's candidates the first, or every one.
enum class Candidates { first, all };
/// Visits the sources of the forms' kernels for an architecture that smelt is for, each with the name "PROBLEM TACTIC
/// CONFIGURATION"; nothing is compiled.
void each_source(std::string_view arch, const std::function<void(const std::string& name, const device::cuda::Source&)>& visit,
                 Candidates candidates = Candidates::all);

/// All of them: pointwise programs, transposes, norms and products, and the following.
std::vector<Form> all_forms();
/// Reductions, softmax, data movement, sorting and selection.
std::vector<Form> data_forms();
/// Attention and rotary embeddings.
std::vector<Form> attention_forms();
/// Convolutions and poolings.
std::vector<Form> image_forms();

}  // namespace smelt::ops
