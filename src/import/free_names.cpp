#include <string_view>
#include <unordered_set>

#include "import/stages.h"

namespace smelt::importer {
namespace {

class FreeNames {
 public:
  void visit(const onnx::GraphProto& g) {
    std::vector<std::string_view> here;
    const auto define = [&](const std::string& name) {
      if (defined_.insert(name).second) here.push_back(name);
    };
    for (const auto& v : g.input()) define(v.name());
    for (const auto& t : g.initializer()) define(t.name());
    for (const auto& n : g.node()) {
      for (const auto& in : n.input()) read(in);
      for (const auto& a : n.attribute()) {
        if (a.has_g()) visit(a.g());
        for (const auto& sub : a.graphs()) visit(sub);
      }
      for (const auto& out : n.output()) define(out);
    }
    for (const auto& v : g.output()) read(v.name());
    for (std::string_view name : here) defined_.erase(name);
  }
  std::vector<std::string> take() { return std::move(names_); }

 private:
  void read(const std::string& name) {
    if (!name.empty() && !defined_.contains(name) && read_.insert(name).second) names_.push_back(name);
  }

  std::unordered_set<std::string_view> defined_, read_;
  std::vector<std::string> names_;
};

}  // namespace

std::vector<std::string> free_names(const onnx::GraphProto& g) {
  FreeNames names;
  names.visit(g);
  return names.take();
}

}  // namespace smelt::importer
