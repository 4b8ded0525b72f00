// Outputs that are sequences: their items are outputs in their place, which the metadata notes.
#include <algorithm>

#include "import/sequences.h"

namespace smelt::importer {
namespace {

class Outputs {
 public:
  Outputs(Loaded& model, const Scope& scope, NodeWriter& writer)
      : model_(model), g_(*model.proto.mutable_graph()), scope_(scope), writer_(writer) {}

  bool run() {
    bool any = false;
    for (int at = 0; at < g_.output_size();) {
      const bool replaced = replace(at);
      any |= replaced;
      if (!replaced) ++at;  // an empty sequence leaves the next one in its place
    }
    return any;
  }

 private:
  bool replace(int at) {
    const onnx::ValueInfoProto output = g_.output(at);
    const Known* of = scope_.find(&Scope::known, output.name());
    if (!of || of->is_optional || !output.type().has_sequence_type()) return false;
    const bool stacked = !of->stack.empty();
    const std::vector<std::string> values = stacked ? std::vector<std::string>{of->stack} : of->items;
    const onnx::TypeProto& declared = output.type().sequence_type().elem_type();
    SequenceOutput s{output.name(), static_cast<DType>(declared.tensor_type().elem_type()), static_cast<size_t>(at),
                     values.size(), stacked};
    for (SequenceOutput& other : model_.sequences)
      if (other.first > s.first) other.first += s.count - 1;
    // The others move on behind it.
    std::vector<onnx::ValueInfoProto> behind(g_.output().begin() + at + 1, g_.output().end());
    g_.mutable_output()->DeleteSubrange(at, g_.output_size() - at);
    for (size_t i = 0; i < values.size(); ++i) {
      const std::string wanted = output.name() + (stacked ? "_stacked" : "_" + std::to_string(i));
      const std::string name = named(wanted, values[i], output.name());
      auto& made = *g_.add_output();
      made.set_name(name);
      if (const auto* type = scope_.find(&Scope::types, values[i]); type && type->has_tensor_type())
        *made.mutable_type() = *type;
      else if (!stacked)
        *made.mutable_type() = declared;
      else
        made.mutable_type()->mutable_tensor_type()->set_elem_type(declared.tensor_type().elem_type());
    }
    for (auto& v : behind) *g_.add_output() = std::move(v);
    const auto place = std::ranges::find_if(model_.sequences, [&](const SequenceOutput& o) { return o.first > s.first; });
    model_.sequences.insert(place, std::move(s));
    return true;
  }

  bool is_output(const std::string& name) const {
    return std::ranges::any_of(g_.output(), [&](const auto& o) { return o.name() == name; });
  }
  const onnx::NodeProto* producer(const std::string& value) const {
    for (const auto& n : g_.node())
      if (std::ranges::find(n.output(), value) != n.output().end()) return &n;
    return nullptr;
  }

  /// The name under which the value is an output: its own where that is the one that is wanted, as it is in a plan, else that of a copy.
  std::string named(const std::string& wanted, const std::string& value, const std::string& sequence) {
    const onnx::NodeProto* from = producer(value);
    const bool is_copy = from && from->op_type() == "Identity" && from->domain().empty() && from->input_size() == 1;
    if (is_copy && from->input(0) == wanted && producer(wanted) && !is_output(wanted)) return wanted;
    if (from && (value == wanted || value.starts_with(wanted + "_")) && !is_output(value)) return value;
    if (!from) from = producer(sequence);
    onnx::NodeProto copy;
    copy.set_op_type("Identity");
    if (from) *copy.mutable_metadata_props() = from->metadata_props();
    copy.add_input(value);
    copy.add_output(writer_.fresh(wanted));
    copy.set_name(copy.output(0));
    *g_.add_node() = copy;
    return copy.output(0);
  }

  Loaded& model_;
  onnx::GraphProto& g_;
  const Scope& scope_;
  NodeWriter& writer_;
};

}  // namespace

bool replace_sequence_outputs(Loaded& model, const Scope& scope, NodeWriter& writer) {
  return Outputs(model, scope, writer).run();
}

}  // namespace smelt::importer
