#include "support/builder.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "import/export.h"
#include "ops/core/expand.h"

namespace smelt::fuse {

ValueId Builder::input(const std::string& name, SymShape shape, DType type) {
  const ValueId v = g.add_value(name, type, std::move(shape));
  g.add_input(v);
  return v;
}

ValueId Builder::weights(const std::string& name, const Shape& shape, DType type, double scale) {
  std::vector<float> values(static_cast<size_t>(elements(shape)));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(scale / 10 * (static_cast<int>(i * 7919 % 101) - 50));
  return g.add_constant(name, Tensor::of(shape, values).cast(type));
}

ValueId Builder::scalar(double value, DType type) { return g.add_constant("", Tensor::scalar(value).cast(type)); }

ValueId Builder::ints(const std::vector<int64_t>& values) {
  return g.add_constant("", Tensor::of({static_cast<int64_t>(values.size())}, values));
}

ValueId Builder::node(const std::string& name, const std::string& op, std::vector<ValueId> inputs, SymShape shape, DType type,
                      std::map<std::string, Attribute> attrs, std::string_view domain) {
  const ValueId out = g.add_value(name + "_out", type, std::move(shape));
  g.sources().push_back({name, op, {}});
  g.add_node({.domain = std::string(domain),
              .op = op,
              .name = name,
              .inputs = std::move(inputs),
              .outputs = {out},
              .attrs = std::move(attrs),
              .sources = {static_cast<int32_t>(g.sources().size()) - 1}});
  return out;
}

void Builder::output(ValueId v) {
  g.add_output(v);
  static int count = 0;
  const char* folder = getenv("SMELT_SEEDS");
  if (!folder) return;
  try {
    const std::string model = export_bytes(g, {.expand = ops::expand});
    std::ofstream(std::filesystem::path(folder) / fmt::format("{:04}.onnx", ++count), std::ios::binary) << model;
  } catch (const Error&) {  // not every graph of a test is one that ONNX can say
  }
}

Ledger run_only(Graph& g, std::string_view name, const Options& options) {
  std::vector<Rewrite> list;
  for (const Rewrite& r : pipeline())
    if (r.name == name || r.name == "dead_code") list.push_back(r);
  Ledger all = run(g, list, options), wanted;
  for (Entry& e : all)
    if (e.rewrite == name) wanted.push_back(std::move(e));
  return wanted;
}

size_t count(const Graph& g, std::string_view op, std::string_view domain) {
  size_t n = 0;
  for (size_t i = 0; i < g.node_count(); ++i) n += g.node(NodeId(i)).alive && g.node(NodeId(i)).is(op, domain);
  return n;
}

}  // namespace smelt::fuse
