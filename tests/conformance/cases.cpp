#include "conformance/cases.h"

#include <onnx/onnx-data.pb.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "import/import.h"
#include "import/tensors.h"
#include "ops/core/operator.h"

namespace smelt::conformance {
namespace fs = std::filesystem;

std::vector<Case> list_cases(const fs::path& root) {
  std::vector<Case> cases;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (entry.path().filename() != "model.onnx") continue;
    Case c{fs::relative(entry.path().parent_path(), root).string(), entry.path().parent_path(), {}};
    std::ifstream(c.folder / "tolerance.txt") >> c.tolerance.relative >> c.tolerance.absolute;
    cases.push_back(std::move(c));
  }
  std::sort(cases.begin(), cases.end(), [](const Case& a, const Case& b) { return a.name < b.name; });
  return cases;
}

std::vector<Tensor> read_tensors(const fs::path& folder, const std::string& what) {
  std::vector<Tensor> result;
  onnx::ModelProto model;
  if (what == "output" && !model.ParseFromString(read_text(folder.parent_path() / "model.onnx")))
    fail("{}: no model", folder.string());
  for (int i = 0;; ++i) {
    const fs::path path = folder / fmt::format("{}_{}.pb", what, i);
    if (!fs::exists(path)) return result;
    if (i < model.graph().output_size() && model.graph().output(i).type().has_sequence_type()) {
      onnx::SequenceProto sequence;
      if (!sequence.ParseFromString(read_text(path))) fail("{}: not a SequenceProto", path.string());
      for (auto& t : *sequence.mutable_tensor_values()) result.push_back(importer::take_tensor(t));
      continue;
    }
    onnx::TensorProto proto;
    if (!proto.ParseFromString(read_text(path))) fail("{}: not a TensorProto", path.string());
    result.push_back(importer::take_tensor(proto));
  }
}

namespace {

bool agree(double a, double e, const Tolerance& t) {
  if (std::isnan(a) || std::isnan(e)) return std::isnan(a) && std::isnan(e);
  if (std::isinf(a) || std::isinf(e)) return a == e;
  return std::abs(a - e) <= t.absolute + t.relative * std::abs(e);
}

}  // namespace

std::string difference(const Tensor& actual, const Tensor& expected, const Tolerance& tolerance) {
  if (actual.type() != expected.type()) return fmt::format("type {}, expected {}", name(actual.type()), name(expected.type()));
  if (actual.shape() != expected.shape())
    return fmt::format("shape {}, expected {}", to_string(actual.shape()), to_string(expected.shape()));
  if (actual.type() == DType::string) return actual.strings() == expected.strings() ? "" : "the strings differ";
  if (is_integer(actual.type()) || actual.type() == DType::boolean) {
    const auto a = actual.to_ints(), e = expected.to_ints();
    for (size_t i = 0; i < a.size(); ++i) {
      if (a[i] != e[i]) return fmt::format("element {} is {}, expected {}", i, a[i], e[i]);
    }
    return "";
  }
  Tolerance t = tolerance;
  if (actual.type() == DType::bf16) t.relative = std::max(t.relative, 1.0 / 64);
  const auto a = actual.to_doubles(), e = expected.to_doubles();
  for (size_t i = 0; i < a.size(); ++i) {
    if (!agree(a[i], e[i], t))
      return fmt::format("element {} of {} is {}, expected {}", i, to_string(actual.shape()), a[i], e[i]);
  }
  return "";
}

std::string run_case(const Case& c) {
  try {
    ImportOptions options;
    options.supported = [](std::string_view domain, std::string_view op) { return ops::find(op, domain) != nullptr; };
    const Graph g = import_model(c.folder / "model.onnx", options);
    int sets = 0;
    for (const auto& entry : fs::directory_iterator(c.folder)) {
      if (!entry.is_directory()) continue;
      ++sets;
      const std::vector<Tensor> expected = read_tensors(entry.path(), "output");
      const std::vector<Tensor> actual = ops::evaluate(g, read_tensors(entry.path(), "input"));
      if (actual.size() < expected.size()) return fmt::format("{} outputs, expected {}", actual.size(), expected.size());
      for (size_t i = 0; i < expected.size(); ++i) {
        if (std::string d = difference(actual[i], expected[i], c.tolerance); !d.empty())
          return fmt::format("output {}: {}", i, d);
      }
    }
    return sets > 0 ? "" : "the case has no data set";
  } catch (const std::exception& e) {
    std::string line = e.what();
    std::replace(line.begin(), line.end(), '\n', ' ');
    return line.empty() ? "an exception without a message" : line;
  }
}

namespace {

struct Child {
  size_t index;
  int pipe;
};

Child start(const Case& c, size_t index, unsigned seconds, std::map<pid_t, Child>& running) {
  int ends[2];
  if (pipe(ends) != 0) fail("pipe: {}", std::strerror(errno));
  const pid_t pid = fork();
  if (pid < 0) fail("fork: {}", std::strerror(errno));
  if (pid == 0) {
    close(ends[0]);
    alarm(seconds);
    const std::string failure = run_case(c).substr(0, 4000);  // fits the pipe's buffer
    const bool written = write(ends[1], failure.data(), failure.size()) == static_cast<ssize_t>(failure.size());
    _exit(written ? 0 : 1);
  }
  close(ends[1]);
  return running[pid] = {index, ends[0]};
}

std::string finish(const Child& child, int status, unsigned seconds) {
  char buffer[4096];
  const ssize_t n = read(child.pipe, buffer, sizeof buffer);
  close(child.pipe);
  if (WIFSIGNALED(status)) {
    return WTERMSIG(status) == SIGALRM ? fmt::format("took longer than {} s", seconds)
                                       : fmt::format("crashed: {}", strsignal(WTERMSIG(status)));
  }
  return n > 0 ? std::string(buffer, static_cast<size_t>(n)) : WEXITSTATUS(status) ? "the case's process failed" : "";
}

}  // namespace

std::vector<Outcome> run_all(const std::vector<Case>& cases, unsigned seconds) {
  std::vector<Outcome> outcomes(cases.size());
  std::map<pid_t, Child> running;
  const size_t most = std::max(1u, std::thread::hardware_concurrency());
  size_t next = 0;
  while (next < cases.size() || !running.empty()) {
    if (next < cases.size() && running.size() < most) {
      start(cases[next], next, seconds, running);
      ++next;
      continue;
    }
    int status = 0;
    const pid_t pid = waitpid(-1, &status, 0);
    const auto child = running.find(pid);
    if (child == running.end()) continue;
    outcomes[child->second.index] = {cases[child->second.index].name, finish(child->second, status, seconds)};
    running.erase(child);
  }
  return outcomes;
}

}  // namespace smelt::conformance
