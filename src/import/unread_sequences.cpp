// Nodes that only made sequences stay while others are replaced; here they go.
#include <algorithm>
#include <set>

#include "import/sequences.h"

namespace smelt::importer {
namespace {

bool makes_others(const std::string& op) {
  static const std::set<std::string> ops{"SequenceEmpty", "SequenceConstruct",  "SequenceInsert",
                                         "SequenceErase", "SplitToSequence",    "SequenceMap",
                                         "Optional",      "OptionalGetElement", "Identity"};
  return ops.contains(op);
}

}  // namespace

bool drop_unread_sequences(onnx::GraphProto& top) {
  bool any = false;
  for (bool again = true; again;) {
    again = false;
    std::set<std::string> read;
    for_each_graph(top, [&](onnx::GraphProto& g) {
      for (const auto& n : g.node()) read.insert(n.input().begin(), n.input().end());
      for (const auto& v : g.output()) read.insert(v.name());
    });
    std::set<std::string> gone;
    for_each_graph(top, [&](onnx::GraphProto& g) {
      std::set<std::string> others;  // values that are no tensors
      for (const auto& v : g.value_info())
        if (v.has_type() && !v.type().has_tensor_type() && v.type().value_case() != onnx::TypeProto::VALUE_NOT_SET)
          others.insert(v.name());
      const auto unread = [&](const std::string& name) { return !read.contains(name); };
      auto& nodes = *g.mutable_node();
      for (int at = nodes.size() - 1; at >= 0; --at) {
        onnx::NodeProto& n = nodes[at];
        if (!n.domain().empty()) continue;
        const auto& outputs = n.output();
        if (makes_others(n.op_type()) && std::ranges::all_of(outputs, unread) &&
            std::ranges::any_of(outputs, [&](const auto& o) { return others.contains(o); })) {
          gone.insert(outputs.begin(), outputs.end());
          nodes.DeleteSubrange(at, 1);
          again = true;
        } else if (n.op_type() == "If") {
          for (int o = n.output_size() - 1; o >= 0 && n.output_size() > 1; --o) {
            if (!others.contains(n.output(o)) || read.contains(n.output(o))) continue;
            gone.insert(n.output(o));
            n.mutable_output()->DeleteSubrange(o, 1);
            for (auto& a : *n.mutable_attribute())
              if (a.has_g()) a.mutable_g()->mutable_output()->DeleteSubrange(o, 1);
            again = true;
          }
        }
      }
    });
    for_each_graph(top, [&](onnx::GraphProto& g) {
      auto& infos = *g.mutable_value_info();
      for (int i = infos.size() - 1; i >= 0; --i)
        if (gone.contains(infos[i].name())) infos.DeleteSubrange(i, 1);
    });
    any |= again;
  }
  return any;
}

}  // namespace smelt::importer
