// Typed access to a node's attributes: an attribute of another type than asked for is an error that names the node.
#include "base/error.h"
#include "graph/graph.h"

namespace smelt {
namespace {

constexpr std::string_view kinds[] = {"an integer", "a float", "a string", "a tensor",
                                      "integers",   "floats",  "strings",  "a graph"};

template <class T> const T* find(const Node& n, const std::string& attr, std::string_view wanted) {
  const auto it = n.attrs.find(attr);
  if (it == n.attrs.end()) return nullptr;
  if (const T* value = std::get_if<T>(&it->second)) return value;
  fail("node '{}' ({}): attribute {} is {}, expected {}", n.name, n.op, attr, kinds[it->second.index()], wanted);
}

template <class T> T get(const Node& n, const std::string& attr, std::string_view wanted, T otherwise) {
  const T* value = find<T>(n, attr, wanted);
  return value ? *value : otherwise;
}

}  // namespace

int64_t Node::get_int(const std::string& attr, int64_t otherwise) const { return get<int64_t>(*this, attr, kinds[0], otherwise); }
float Node::get_float(const std::string& attr, float otherwise) const { return get<float>(*this, attr, kinds[1], otherwise); }
std::string Node::get_string(const std::string& attr, std::string otherwise) const {
  return get<std::string>(*this, attr, kinds[2], std::move(otherwise));
}
std::vector<int64_t> Node::get_ints(const std::string& attr, std::vector<int64_t> otherwise) const {
  return get<std::vector<int64_t>>(*this, attr, kinds[4], std::move(otherwise));
}
std::vector<float> Node::get_floats(const std::string& attr, std::vector<float> otherwise) const {
  return get<std::vector<float>>(*this, attr, kinds[5], std::move(otherwise));
}
std::vector<std::string> Node::get_strings(const std::string& attr) const {
  return get<std::vector<std::string>>(*this, attr, kinds[6], {});
}
Tensor Node::get_tensor(const std::string& attr) const { return get<Tensor>(*this, attr, kinds[3], {}); }
GraphPtr Node::get_graph(const std::string& attr) const { return get<GraphPtr>(*this, attr, kinds[7], nullptr); }

}  // namespace smelt
