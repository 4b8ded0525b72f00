#include <fmt/core.h>

#include "import/stages.h"

namespace smelt::importer {

std::optional<std::vector<std::string>> parse_python_list(std::string_view text) {
  std::vector<std::string> out;
  size_t i = 0;
  auto skip = [&] {
    while (i < text.size() && text[i] == ' ') ++i;
  };
  const auto accept = [&](char c) {
    if (i >= text.size() || text[i] != c) return false;
    ++i;
    return true;
  };
  skip();
  if (!accept('[')) return {};
  skip();
  if (i < text.size() && text[i] == ']') return out;
  while (i < text.size()) {
    const char quote = text[i++];
    if (quote != '\'' && quote != '"') return {};
    std::string s;
    while (i < text.size() && text[i] != quote) {
      if (text[i] == '\\' && i + 1 < text.size()) ++i;
      s += text[i++];
    }
    if (i++ >= text.size()) return {};
    out.push_back(std::move(s));
    skip();
    if (i >= text.size()) return {};
    if (text[i] == ']') return out;
    if (!accept(',')) return {};
    skip();
  }
  return {};
}

std::string print_python_list(const std::vector<std::string>& items) {
  std::string out = "[";
  for (const auto& item : items) {
    if (out.size() > 1) out += ", ";
    out += '\'';
    for (char c : item) {
      if (c == '\'' || c == '\\') out += '\\';
      out += c;
    }
    out += '\'';
  }
  return out + "]";
}

namespace {

// "name: class/name: class/…": the names. Classes hold dots but no slash; a name may be empty.
std::vector<std::string> parse_namespace(std::string_view text) {
  std::vector<std::string> out;
  while (true) {
    const size_t slash = text.find('/');
    const std::string_view part = text.substr(0, slash);
    out.emplace_back(part.substr(0, part.find(": ")));
    if (slash == std::string_view::npos) return out;
    text.remove_prefix(slash + 1);
  }
}

// "/layer1/layer1.0/conv1/Conv": each part is a module below the one before; a part that spells its parent's path out
// ("layer1.0" below "layer1") is taken as the path.
std::vector<std::string> parse_name(const std::string& name) {
  std::vector<std::string> out{""};
  size_t at = 1;
  for (size_t slash; (slash = name.find('/', at)) != std::string::npos; at = slash + 1) {
    const std::string part = name.substr(at, slash - at);
    const std::string& parent = out.back();
    const size_t dot = parent.rfind('.');
    const std::string last = dot == std::string::npos ? parent : parent.substr(dot + 1);
    if (parent.empty() || part.starts_with(parent + ".")) {
      out.push_back(part);
    } else if (part.starts_with(last + ".")) {
      out.push_back(parent + part.substr(last.size()));
    } else {
      out.push_back(fmt::format("{}.{}", parent, part));
    }
  }
  return out;
}

}  // namespace

std::vector<std::string> scopes_of(const onnx::NodeProto& node) {
  std::vector<std::string> scopes;
  if (const auto* text = find_metadata(node, "pkg.torch.onnx.name_scopes")) {
    if (auto list = parse_python_list(*text)) scopes = std::move(*list);
  } else if (const auto* names = find_metadata(node, "namespace")) {
    scopes = parse_namespace(*names);
  }
  if (!scopes.empty()) {
    scopes.pop_back();  // both end with the operator's own name in the traced program
    return scopes;
  }
  if (node.name().starts_with("/")) return parse_name(node.name());
  return {};
}

}  // namespace smelt::importer
