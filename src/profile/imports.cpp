#include "profile/imports.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/file.h"
#include "base/gunzip.h"
#include "base/number.h"

namespace smelt::profile {
namespace {

using Json = nlohmann::json;

/// The file's text, unpacked where gzip packed it (PyTorch's "trace.json.gz"), without a byte order mark.
std::string unpacked(const std::filesystem::path& file) {
  std::string text = read_text(file);
  try {
    if (is_gzip(text)) text = gunzip(text);
  } catch (const Error& e) {
    throw Error(fmt::format("{}: {}", file.string(), e.what()), e.next(), e.code());
  }
  constexpr std::string_view mark = "\xef\xbb\xbf";
  if (text.starts_with(mark)) text.erase(0, mark.size());
  if (text.find_first_not_of(" \t\r\n") == text.npos) fail("{}: the file is empty", file.string());
  return text;
}

Json parsed(const std::filesystem::path& file) {
  const std::string text = unpacked(file);
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& e) {  // its text may quote bytes that are no text
    if (file.extension() == ".onnx")
      throw Error(fmt::format("{}: expected a profile, found a model", file.string()),
                  fmt::format("Profile it first: smelt profile {} --json > profile.json", file.string()), ExitCode::usage);
    throw Error(fmt::format("{}: not whole JSON: wrong at byte {} of {}", file.string(), e.byte, text.size()));
  } catch (const Json::exception& e) {  // a number that is too large
    throw Error(fmt::format("{}: damaged: {}", file.string(), words(e)));
  }
}

double number_of(const Json& object, const char* key) {
  const auto at = object.find(key);
  return at != object.end() && at->is_number() ? at->get<double>() : 0;
}

/// The modules of a body's node: those of what runs the body, that itself, and its own.
std::vector<std::string> scope_inside(const Timings& t, const std::map<size_t, size_t>& inside, size_t node) {
  std::vector<std::string> scope = scope_of_name(t.nodes[node].name);
  for (auto at = inside.find(node); at != inside.end(); at = inside.find(at->second)) {
    std::vector<std::string> around = scope_of_name(t.nodes[at->second].name);
    around.push_back(t.nodes[at->second].name);
    scope.insert(scope.begin(), around.begin(), around.end());
  }
  return scope;
}

bool any_is(const Json& events, const char* key, std::string_view value) {
  return std::ranges::any_of(events, [&](const Json& e) { return e.is_object() && text_of(e, key) == value; });
}

}  // namespace

std::string text_of(const nlohmann::json& object, const char* key) {
  const auto at = object.find(key);
  return at != object.end() && at->is_string() ? at->get<std::string>() : "";
}

std::vector<std::string> common(const std::vector<std::vector<std::string>>& scopes) {
  std::vector<std::string> same = scopes.empty() ? std::vector<std::string>{} : scopes.front();
  for (const auto& s : scopes) {
    const auto [a, b] = std::ranges::mismatch(same, s);
    same.erase(a, same.end());
  }
  std::erase(same, "");
  return same;
}

std::string_view words(const nlohmann::json::exception& e) {
  const std::string_view text = e.what();
  const size_t end = text.find("] ");
  return end == text.npos ? text : text.substr(end + 2);
}

void add_levels(std::vector<std::string>& scope, std::string_view label) {
  size_t size = 0;
  for (const std::string& level : scope) size += level.size();
  label = label.substr(0, longest_scope - std::min(size, longest_scope));
  for (size_t at = 0; at < label.size() && scope.size() < deepest_scope;) {
    const size_t end = std::min(label.find('/', at), label.size());
    if (end > at) scope.emplace_back(label.substr(at, end - at));
    at = end + 1;
  }
}

std::vector<std::string> own_names(std::vector<std::string> levels) {
  levels.resize(std::min(levels.size(), deepest_scope));
  std::string outer;
  for (std::string& level : levels) {
    if (!outer.empty() && level.starts_with(outer + '.')) level.erase(0, outer.size() + 1);
    outer += (outer.empty() ? "" : ".") + level;
  }
  return levels;
}

std::vector<std::string> scope_of_name(const std::string& name) {
  std::vector<std::string> parts;
  if (const size_t last = name.find_last_not_of('/'); last != name.npos)
    add_levels(parts, std::string_view(name).substr(0, name.find_last_of('/', last) + 1));
  return own_names(std::move(parts));
}

/// Builds of PyTorch without Kineto write an array of spans without categories.
Json with_categories(const Json& events) {
  Json all = Json::array();
  for (Json e : events) {
    const std::string name = text_of(e, "name");
    const bool gpu = text_of(e, "pid") == "CUDA functions", annotation = name.find("::") == name.npos;
    e["cat"] = gpu ? "kernel" : name.starts_with("nn.Module: ") ? "python_function" : annotation ? "user_annotation" : "cpu_op";
    all.push_back(std::move(e));
  }
  return {{"traceEvents", std::move(all)}};
}

Timings from_smelt(const Json& report) {
  Timings t{.origin = "smelt"};
  const Json& side = report.contains("after") ? report.at("after") : report.at("before");
  t.runs = truncated<int>(number_of(side.at("latency_us"), "count"));
  for (const Json& s : side.at("steps")) {
    NodeTime n{.name = text_of(s, "name"), .op = text_of(s, "op"), .calls = 1};
    n.sources = s.at("sources").get<std::vector<std::string>>();
    n.scope = own_names(common(s.at("scopes").get<std::vector<std::vector<std::string>>>()));
    n.self_cpu_us = n.total_cpu_us = number_of(s.at("us"), "median");
    t.nodes.push_back(std::move(n));
  }
  // A step that runs bodies holds the time of what is inside of it: "inside" says which, "loop: body / if: then_branch".
  std::map<std::string, size_t> index;
  for (size_t i = 0; i < t.nodes.size(); ++i) index.emplace(t.nodes[i].name, i);
  for (const Json& s : side.value("inside", Json::array())) {
    NodeTime n{.name = text_of(s, "name"), .op = text_of(s, "op"), .calls = number_of(s, "calls")};
    n.self_cpu_us = n.total_cpu_us = number_of(s, "us");
    std::string path = text_of(s, "inside");
    constexpr std::string_view between = " / ";
    std::string around;
    for (size_t at = 0; at < path.size();) {
      const size_t end = std::min(path.find(between, at), path.size());
      around = path.substr(at, end - at);
      around.resize(std::min(around.rfind(": "), around.size()));
      if (n.scope.empty())
        if (const auto found = index.find(around); found != index.end()) n.scope = t.nodes[found->second].scope;
      n.scope.push_back(around);
      at = end + between.size();
    }
    if (const auto found = index.find(around); found != index.end()) {
      NodeTime& outer = t.nodes[found->second];
      outer.self_cpu_us = std::max(0.0, outer.self_cpu_us - n.total_cpu_us);
    }
    index.emplace(n.name, t.nodes.size());
    t.nodes.push_back(std::move(n));
  }
  if (side.contains("advice"))
    for (const Json& a : side.at("advice"))
      t.advice.push_back({text_of(a, "what"), text_of(a, "why"), number_of(a, "us"), text_of(a, "from"),
                          a.at("steps").get<std::vector<std::string>>(), text_of(a, "option")});
  // A GPU's plan runs kernels of cuda, cudnn and cublaslt.
  t.gpu = std::ranges::any_of(side.at("steps"), [](const Json& step) { return text_of(step, "tactic").starts_with("cu"); });
  if (t.gpu)
    for (NodeTime& n : t.nodes) std::swap(n.self_cpu_us, n.self_gpu_us), std::swap(n.total_cpu_us, n.total_gpu_us);
  return t;
}

// An array of events: of a node {"cat": "Node", "name": "/conv/Conv_kernel_time", "ts", "dur": microseconds, "tid", "args":
// {"op_name", "provider", …}}, of a run {"cat": "Session", "name": "model_run"} after its nodes; on a GPU {"cat": "Kernel", "args":
// {"op_name"}}. The nodes of a body come before the Loop, If or Scan that ran them, on its thread and within its time.
Timings from_onnxruntime(const Json& events) {
  Timings t{.origin = "ONNX Runtime"};
  const int runs =
      static_cast<int>(std::ranges::count_if(events, [](const Json& e) { return text_of(e, "name") == "model_run"; }));
  const bool skip_first = runs > 1;  // it allocates and loads
  t.runs = std::max(1, runs - skip_first);
  struct Ended {
    double begin, us;
    size_t node;
  };
  std::map<size_t, size_t> inside;               // a body's node → the node that runs the body
  std::map<double, std::vector<Ended>> threads;  // nodes that have ended and that nothing is known to be around
  std::map<std::string, size_t> index;
  int run = 0;
  for (const Json& e : events) {
    std::string name = text_of(e, "name");
    const std::string category = text_of(e, "cat");
    if (name == "model_run") ++run, threads.clear();
    constexpr std::string_view ending = "_kernel_time";
    const bool node = category == "Node" && name.ends_with(ending), kernel = category == "Kernel";
    if ((!node && !kernel) || (skip_first && run == 0)) continue;
    if (node) name.resize(name.size() - ending.size());
    const Json& args = e.at("args");
    const auto [at, added] = index.try_emplace((kernel ? "k " : "n ") + name, t.nodes.size());
    const size_t i = at->second;
    if (added) t.nodes.push_back({.name = name, .op = text_of(args, "op_name"), .scope = scope_of_name(name)});
    const double dur = number_of(e, "dur"), us = dur / t.runs;
    t.nodes[i].calls += 1.0 / t.runs;
    if (kernel) {
      t.gpu = true;
      t.nodes[i].self_gpu_us += us, t.nodes[i].total_gpu_us += us;
      continue;
    }
    t.nodes[i].self_cpu_us += us, t.nodes[i].total_cpu_us += us;
    std::vector<Ended>& ended = threads[number_of(e, "tid")];
    const double begin = number_of(e, "ts");
    const std::string& op = t.nodes[i].op;
    for (; (op == "Loop" || op == "If" || op == "Scan") && !ended.empty() && ended.back().begin >= begin; ended.pop_back()) {
      t.nodes[i].self_cpu_us -= ended.back().us / t.runs;
      inside[ended.back().node] = i;
    }
    ended.push_back({begin, dur, i});
  }
  for (const auto& [body, around] : inside) t.nodes[body].scope = scope_inside(t, inside, body);
  for (NodeTime& n : t.nodes) n.self_cpu_us = std::max(0.0, n.self_cpu_us);
  if (t.nodes.empty()) fail("an ONNX Runtime profile without a node's time");
  return t;
}

bool is_profile(const std::filesystem::path& file) {
  const std::string head = read_head(file, 256);
  if (head.starts_with("SQLite format 3") || is_gzip(head)) return true;
  if (file.extension() == ".json" || file.extension() == ".sqlite") return true;
  const size_t first = head.find_first_not_of(" \t\r\n");
  return first != head.npos && (head[first] == '{' || head[first] == '[') && file.extension() != ".onnx";
}

Timings read_timings(const std::filesystem::path& file, const std::filesystem::path& layers) {
  const auto named = [&](Timings t) {
    t.file = file.filename().string();
    return t;
  };
  const auto with_file = [&](const Error& e) {
    return Error(fmt::format("{}: {}", file.string(), e.what()), e.next(), e.code());
  };
  try {
    if (read_head(file, 15) == "SQLite format 3") return named(from_nsight(file));
  } catch (const Error& e) {
    throw with_file(e);
  }
  const Json json = parsed(file);
  try {
    if (!layers.empty()) {
      const Json described = parsed(layers);
      return named(from_trtexec(json, &described));
    }
    if (json.is_object() && text_of(json, "format") == "smelt.report") {
      constexpr int newest = 2;  // docs/report.schema.json
      if (const double version = number_of(json, "version"); version > newest)
        throw Error(fmt::format("a report of version {}; this smelt reads up to {}", version, newest), "A newer smelt reads it.",
                    ExitCode::unsupported);
      if (!json.contains("after") && !json.contains("before"))
        throw Error("a report of smelt without a profile", "smelt profile MODEL --json writes one.", ExitCode::unsupported);
      return named(from_smelt(json));
    }
    if (json.is_object() && json.contains("traceEvents")) return named(from_pytorch(json));
    if (json.is_array() && any_is(json, "pid", "CPU functions")) return named(from_pytorch(with_categories(json)));
    if (json.is_array() && any_is(json, "cat", "Node")) return named(from_onnxruntime(json));
    if (json.is_array() && std::ranges::any_of(json, [](const Json& e) { return e.is_object() && e.contains("averageMs"); }))
      return named(from_trtexec(json, nullptr));
    if (json.is_array() && any_is(json, "ph", "X"))  // Chrome's events without the object around them
      return named(from_pytorch({{"traceEvents", json}}));
    if (json.is_array() && json.size() == 1 && json[0].is_object() && json[0].contains("count"))
      fail("a profile of trtexec without a layer's time");
    if (json.is_object() && json.contains("Layers"))
      throw Error("trtexec's layers, without times",
                  "Give them beside the profile: smelt profile profile.json --layers this.json", ExitCode::unsupported);
  } catch (const Json::exception& e) {
    throw Error(fmt::format("{}: damaged: {}", file.string(), words(e)));
  } catch (const Error& e) {
    throw with_file(e);
  }
  throw Error(
      fmt::format("{}: no profile that smelt reads", file.string()),
      "It reads its own JSON, PyTorch's traces, ONNX Runtime's profiles, trtexec --exportProfile, and Nsight Systems' SQLite.",
      ExitCode::unsupported);
}

}  // namespace smelt::profile
