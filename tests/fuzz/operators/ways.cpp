#include "fuzz/operators/ways.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <span>

#include "base/error.h"
#include "fuzz/operators/agree.h"
#include "import/import.h"
#include "ops/core/operator.h"
#include "smelt/session.h"
#include "support/sanitized.h"

namespace smelt::fuzz {
namespace {

constexpr int64_t largest_result = 1 << 22;  // elements; more takes too long to run again and compare
constexpr double longest_run_s = 5;          // a Loop may ask for more; a hang is what does not end then

[[noreturn]] void found(const std::string& what) {
  fprintf(stderr, "finding: %s\n", what.c_str());
  fflush(stderr);
  _exit(bad_case);
}

Outcome run(Execution& e, const std::vector<Tensor>& inputs) {
  Outcome o;
  try {
    e.bind(inputs);
    e.run();
    for (const Tensor& t : e.outputs()) o.outputs.push_back(to_host(t).clone());
  } catch (const Error& error) {
    o.refused = error.what();
    o.stopped = error.code() == ExitCode::stopped;
    if (o.refused.find("CUDA_ERROR") != std::string::npos) found("the driver's error is a kernel's mistake: " + o.refused);
  } catch (const std::bad_alloc&) {
    o.refused = "out of memory";
  }
  return o;
}

/// Another byte than before in what malloc gives from here on; AddressSanitizer's has one of its own, large blocks come as zeros.
void fill_new_memory(int byte) {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_PERTURB, byte);
#endif
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.type() == DType::string ||
         (a.nbytes() == b.nbytes() && std::memcmp(a.raw(), b.raw(), static_cast<size_t>(a.nbytes())) == 0);
}

/// Runs it again where memory begins with other bytes: what differs then was never written, and may be anything of the process.
void look_for_unwritten(const OperatorCase& c, const std::vector<Tensor>& outputs, const std::function<Outcome()>& again) {
  if (sanitized || !repeatable(c)) return;
  fill_new_memory(0x3c);
  const Outcome o = again();
  fill_new_memory(0xa5);
  if (o.outputs.size() != outputs.size()) return;
  for (size_t i = 0; i < outputs.size(); ++i)
    if (!same_bytes(outputs[i], o.outputs[i]))
      found(fmt::format("output {} {} holds what was in memory before, or differs from run to run: {}", i,
                        to_string(outputs[i].shape()), difference(outputs, o.outputs, false)));
}

Options options_on(const std::string& device) {
  Options options;
  options.device = device;
  options.allow_fallback = true;
  options.threads = 2;
  options.spin = false;
  options.tuning_level = 0;
  options.use_cache = device != "cpu";  // compiled kernels are kept; without measurements there is nothing else to keep
  return options;
}

ImportOptions of_bytes() {
  ImportOptions reading;
  reading.folder = "/nonexistent";
  reading.supported = [](std::string_view domain, std::string_view op) { return ops::find(op, domain) != nullptr; };
  return reading;
}

Graph graph_of(const OperatorCase& c) {
  const std::string bytes = c.model.SerializeAsString();
  return import_model(std::span(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()), "fuzz", of_bytes());
}

/// What the plan is fed of the case, in its order.
std::vector<Tensor> fed_to(const Plan& plan, const OperatorCase& c) {
  std::vector<Tensor> fed;
  for (const TensorInfo& i : plan.inputs())
    for (const Feed& f : c.feeds)
      if (f.name == i.name) fed.push_back(f.tensor);
  return fed;
}

/// The processor's seconds of this process, or the clock's.
double seconds_of(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

}  // namespace

bool repeatable(const OperatorCase& c) {
  if (squares_overflow(c)) return false;
  const bool tame = is_tame(c);
  for (const auto& n : c.model.graph().node())
    if ((!tame && n.op_type().find("Quantize") != std::string::npos) || n.op_type().starts_with("Random") ||
        n.op_type() == "Bernoulli" || n.op_type() == "Multinomial" || n.op_type() == "Dropout")
      return false;
  return true;
}

Outcome run_in_every_way(const OperatorCase& c, const std::string& device, Random& random) {
  Options options = options_on(device);
  options.time_limit = longest_run_s;
  options.memory_limit = int64_t{1} << 27;  // of what a machine has, a case could take minutes to fill
  std::vector<Tensor> inputs;
  Outcome first;
  const auto with = [&](const std::function<void()>& work) {
    try {
      work();
    } catch (const Error& e) {
      if (first.outputs.empty()) first.refused = e.what();
    } catch (const std::bad_alloc&) {
      first.refused = "out of memory";
    } catch (const std::exception& e) {
      found(fmt::format("an exception that is no Error: {}", e.what()));
    }
  };
  const auto graph = [&] { return graph_of(c); };
  const auto plain = [&](const OperatorCase& of, std::vector<Tensor>& fed) {
    Options unfused = options;
    unfused.optimize = false;
    unfused.tactics.clear();
    const auto plan = Plan::build(graph_of(of), unfused);
    fed = fed_to(*plan, of);
    Outcome o = run(*plan->execution(), fed);
    o.sequences = sequence_outputs(*plan);
    return o;
  };
  options.optimize = false;
  with([&] { first = plain(c, inputs); });
  int64_t made = 0;
  for (const Tensor& t : first.outputs) made += t.size();
  if (made > largest_result || first.stopped) return first;
  // What a reference refuses, the operator's rule has to: kernels rely on it.
  if (first.refused.empty() && device == "cpu")
    with([&] {
      options.tactics = "-onednn,-avx2,-winograd,-cpu";
      if (const Outcome o = run(*Plan::build(graph(), options)->execution(), inputs); !o.refused.empty() && !o.stopped)
        found("the reference alone refuses it: " + o.refused);
    });
  options.tactics.clear();
  if (first.refused.empty() && device == "cpu")
    with([&] {
      std::vector<Tensor> fed;
      look_for_unwritten(c, first.outputs, [&] { return plain(c, fed); });
    });
  const auto compare = [&](const Outcome& o, const char* what) {
    if (!o.refused.empty() || !first.refused.empty() || !repeatable(c)) return;
    const bool tame = is_tame(c);
    if (difference(first.outputs, o.outputs, tame).empty()) return;
    const Slack slack = spread(
        c, first.outputs,
        [&](const OperatorCase& near) {
          std::vector<Tensor> fed;
          Outcome moved;
          with([&] { moved = plain(near, fed); });
          return moved.outputs;
        },
        random);
    if (const std::string d = difference(first.outputs, o.outputs, tame, slack); !d.empty())
      found(fmt::format("{}: {}", what, d));
  };
  with([&] {
    options.optimize = true;
    const auto plan = Plan::build(graph(), options);
    static std::shared_ptr<const Plan> last;  // a GPU that no plan uses is closed, and takes a second to open
    if (device != "cpu") last = plan;
    const auto execution = plan->execution();
    const Outcome optimised = run(*execution, inputs);
    compare(optimised, "optimised");
    if (optimised.refused.empty() && device == "cpu")
      look_for_unwritten(c, optimised.outputs, [&] { return run(*Plan::build(graph(), options)->execution(), inputs); });
    if (random() % 2 == 0) return;
    std::string without;
    try {
      for (const StepInfo& s : execution->steps())
        if (!s.tactic.empty() && s.tactic != "reference") without += (without.empty() ? "-" : ",-") + s.tactic;
    } catch (const Error&) {
    }
    if (without.empty()) return;
    options.tactics = without;
    compare(run(*Plan::build(graph(), options)->execution(), inputs), without.c_str());
  });
  return first;
}

Outcome run_soon(const OperatorCase& c, const std::string& device, double seconds) {
  Options options = options_on(device);
  options.memory_limit = int64_t{1} << 20;  // large results take long for what they are
  options.time_limit = seconds / 2;         // a Loop may be told to go on; a kernel that does not end cannot be
  const auto once = [&](Outcome& o) {
    const clockid_t clock = device == "cpu" ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC;
    const double begin = seconds_of(clock);
    try {
      const auto plan = Plan::build(graph_of(c), options);
      static std::shared_ptr<const Plan> last;  // a GPU that no plan uses is closed, and takes a second to open
      if (device != "cpu") last = plan;
      o = run(*plan->execution(), fed_to(*plan, c));
    } catch (const Error& e) {
      o.refused = e.what();
    } catch (const std::bad_alloc&) {
      o.refused = "out of memory";
    }
    return seconds_of(clock) - begin;
  };
  Outcome first;
  for (const char* way : {"as imported", "by references alone", "optimised"}) {
    options.optimize = std::strcmp(way, "optimised") == 0;
    options.tactics = std::strcmp(way, "by references alone") == 0 ? "-onednn,-avx2,-winograd,-cpu" : "";
    if (!options.tactics.empty() && device != "cpu") continue;
    Outcome o;
    double took = once(o);
    if (took > seconds) took = std::min(took, once(o));  // kernels were compiled, or others had the machine
    if (took > seconds) found(fmt::format("it took {:.1f} s {}: {}", took, way, o.refused.empty() ? "it ran" : o.refused));
    if (first.outputs.empty() && first.refused.empty()) first = o;
  }
  return first;
}

}  // namespace smelt::fuzz
