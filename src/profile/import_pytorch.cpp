// PyTorch's profiler: Chrome's trace events. Of interest: "X" events (a span) of the categories
//   user_annotation    record_function's labels, and "ProfilerStep#3" around each step of a schedule
//   python_function    with_modules: "nn.Module: Linear_0"
//   cpu_op             an operator; nested in time on its thread
//   cuda_runtime       a launch; args.correlation is that of the kernel
//   kernel, gpu_memcpy, gpu_memset    work on a GPU; args["External id"] is that of the operator that asked for it
// and "[memory]" instants with args.Bytes.
#include <algorithm>
#include <map>

#include "base/error.h"
#include "profile/imports.h"

namespace smelt::profile {
namespace {

using Json = nlohmann::json;

enum class Kind : uint8_t { scope, step, op, launch };

struct Span {
  Kind kind;
  std::string name;
  double begin, end;
  int64_t external = -1, correlation = -1;
  double inner_us = 0;  // of operators directly inside
  int64_t bytes = 0;
  size_t node = SIZE_MAX;  // the row that it is added to
};

int64_t id_of(const Json& args, std::string_view key) {
  auto at = args.find(key);
  if (at == args.end() && key == "External id") at = args.find("external id");  // of kernels, before PyTorch 1.12
  return at != args.end() && at->is_number_integer() ? at->get<int64_t>() : -1;
}

class Reader {
 public:
  Timings read(const Json& trace) {
    if (!trace.at("traceEvents").is_array()) fail("its traceEvents are no list");
    sort_events(trace.at("traceEvents"));
    for (auto& [thread, spans] : threads_) read_thread(spans, memory_[thread]);
    for (const Json* e : gpu_) add_gpu(*e);
    if (nodes_.empty())
      throw Error("a trace without operators, kernels or steps", "PyTorch's profiler writes them with export_chrome_trace.",
                  ExitCode::unsupported);
    const int runs = std::max(1, steps_);
    Timings t{.origin = "PyTorch profiler", .runs = runs, .gpu = !gpu_.empty(), .nodes = std::move(nodes_)};
    for (NodeTime& n : t.nodes) {
      n.calls /= runs;
      n.bytes /= runs;
      for (double* us : {&n.self_cpu_us, &n.total_cpu_us, &n.self_gpu_us, &n.total_gpu_us}) *us /= runs;
    }
    return t;
  }

 private:
  using Thread = std::string;

  /// "nn.Module: Linear_0" → "Linear_0"; of "## Call CompiledFxGraph fs7bkufa77t7… ##" what tells two apart.
  static std::string label(const std::string& name) {
    constexpr std::string_view module = "nn.Module: ", compiled = "## Call CompiledFxGraph ";
    if (name.starts_with(module)) return name.substr(module.size());
    if (name.starts_with(compiled)) return "compiled graph " + name.substr(compiled.size(), 8);
    return name;
  }

  void sort_events(const Json& events) {
    for (size_t i = 0; i < events.size(); ++i) {
      const Json& e = events[i];
      if (!e.is_object() || !e.contains("name") || !e.at("name").is_string()) continue;
      try {
        sort_event(e);
      } catch (const Json::exception& wrong) {
        fail("damaged: event {} of {}: {}", i + 1, events.size(), words(wrong));
      }
    }
  }

  /// Categories as PyTorch calls them since 1.12; before, and on other makers' GPUs, some had other names.
  static std::string category_of(const Json& e) {
    const std::string category = e.value("cat", std::string());
    static const std::map<std::string, std::string> names{
        {"Operator", "cpu_op"}, {"Runtime", "cuda_runtime"}, {"hip_runtime", "cuda_runtime"}, {"xpu_runtime", "cuda_runtime"},
        {"Kernel", "kernel"},   {"Memcpy", "gpu_memcpy"},    {"Memset", "gpu_memset"}};
    const auto at = names.find(category);
    return at == names.end() ? category : at->second;
  }

  void sort_event(const Json& e) {
    const auto name = e.at("name").get<std::string>();
    const std::string category = category_of(e);
    static const Json none = Json::object();
    const Json& args = e.contains("args") && e.at("args").is_object() ? e.at("args") : none;
    const Thread thread = (e.contains("pid") ? e.at("pid").dump() : "") + " " + (e.contains("tid") ? e.at("tid").dump() : "");
    if (name == "[memory]" && args.contains("Bytes")) {
      if (const auto bytes = args.at("Bytes").get<int64_t>(); bytes > 0)
        memory_[thread].emplace_back(e.at("ts").get<double>(), bytes);
      return;
    }
    if (e.value("ph", std::string()) != "X") return;
    if (category == "kernel" || category == "gpu_memcpy" || category == "gpu_memset") {
      gpu_.push_back(&e);
      return;
    }
    constexpr std::string_view module = "nn.Module: ";
    Kind kind = Kind::op;
    if (category == "user_annotation") {
      kind = name.starts_with("ProfilerStep#") ? Kind::step : Kind::scope;
    } else if (category == "python_function") {
      if (!name.starts_with(module)) return;
      kind = Kind::scope;
    } else if (category == "cuda_runtime" || category == "cuda_driver") {
      kind = Kind::launch;
    } else if (category != "cpu_op") {
      return;
    }
    const double begin = e.at("ts").get<double>(), us = std::max(0.0, e.value("dur", 0.0));
    steps_ += kind == Kind::step;
    threads_[thread].push_back({kind, label(name), begin, begin + us, id_of(args, "External id"), id_of(args, "correlation")});
  }

  /// The spans that are open at a time, the outermost first, and those of two kinds among them: a file may nest all it has.
  struct Open {
    std::vector<Span*> all, scopes, ops;
    void push(Span& s) {
      all.push_back(&s);
      if (s.kind == Kind::scope) scopes.push_back(&s);
      if (s.kind == Kind::op) ops.push_back(&s);
    }
    Span& pop() {
      Span& s = *all.back();
      all.pop_back();
      if (s.kind == Kind::scope) scopes.pop_back();
      if (s.kind == Kind::op) ops.pop_back();
      return s;
    }
  };

  void read_thread(std::vector<Span>& spans, std::vector<std::pair<double, int64_t>>& memory) {
    std::ranges::stable_sort(spans,
                             [](const Span& a, const Span& b) { return a.begin != b.begin ? a.begin < b.begin : a.end > b.end; });
    std::ranges::sort(memory);
    Open open;
    auto next = memory.begin();
    const auto memory_until = [&](double time) {
      for (; next != memory.end() && next->first < time; ++next) {
        close(open, next->first);
        if (!open.ops.empty()) open.ops.back()->bytes += next->second;
      }
    };
    for (Span& s : spans) {
      memory_until(s.begin);
      close(open, s.begin);
      if (s.kind == Kind::op || s.kind == Kind::launch) enter(s, open);
      open.push(s);
    }
    memory_until(1e300);
    close(open, 1e300);
  }

  void enter(Span& s, const Open& open) {
    Span* op = open.ops.empty() ? nullptr : open.ops.back();
    if (s.kind == Kind::launch) {
      if (op && s.correlation >= 0) by_correlation_[s.correlation] = op->node;
      return;
    }
    if (op) op->inner_us += s.end - s.begin;
    std::vector<std::string> scope;
    for (const Span* o : open.scopes) {
      if (scope.size() >= deepest_scope) break;
      add_levels(scope, o->name);
    }
    s.node = row_of(own_names(std::move(scope)), s.name);
    if (s.external >= 0) by_external_[s.external] = s.node;
  }

  void close(Open& open, double time) {
    while (!open.all.empty() && open.all.back()->end <= time) {
      const Span& s = open.pop();
      if (s.kind != Kind::op) continue;
      NodeTime& n = nodes_[s.node];
      n.calls += 1;
      n.bytes += s.bytes;
      n.total_cpu_us += s.end - s.begin;
      n.self_cpu_us += std::max(0.0, s.end - s.begin - s.inner_us);
    }
  }

  size_t row_of(const std::vector<std::string>& scope, const std::string& op) {
    std::string name;
    for (const std::string& level : scope) name += level + "/";
    name += op;
    const auto [at, added] = rows_.try_emplace(name, nodes_.size());
    if (added) nodes_.push_back({.name = name, .op = op, .scope = scope});
    return at->second;
  }

  /// A kernel's time goes to the operator that launched it; one that nobody asked for is a row of its own.
  void add_gpu(const Json& e) {
    const double us = std::max(0.0, e.value("dur", 0.0));
    static const Json none = Json::object();
    const Json& args = e.contains("args") && e.at("args").is_object() ? e.at("args") : none;
    size_t node = SIZE_MAX;
    if (const auto at = by_external_.find(id_of(args, "External id")); at != by_external_.end()) node = at->second;
    if (const auto at = by_correlation_.find(id_of(args, "correlation")); node == SIZE_MAX && at != by_correlation_.end())
      node = at->second;
    if (node == SIZE_MAX) {
      node = row_of({}, e.at("name").get<std::string>());
      nodes_[node].calls += 1;
    }
    nodes_[node].self_gpu_us += us;
    nodes_[node].total_gpu_us += us;
  }

  std::map<Thread, std::vector<Span>> threads_;
  std::map<Thread, std::vector<std::pair<double, int64_t>>> memory_;
  std::vector<const Json*> gpu_;
  std::map<int64_t, size_t> by_external_, by_correlation_;
  std::map<std::string, size_t> rows_;
  std::vector<NodeTime> nodes_;
  int steps_ = 0;
};

}  // namespace

Timings from_pytorch(const Json& trace) { return Reader().read(trace); }

}  // namespace smelt::profile
