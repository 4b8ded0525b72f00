#include "ops/scan/scan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cmath>
#include <csignal>

#include "ops/core/strides.h"
#include "smelt/error.h"

namespace smelt::ops::scan {
namespace {

/// Between 1 and the next larger number of the type.
double unit(DType t) {
  switch (t) {
    case DType::f64: return 0x1p-52;
    case DType::f16: return 0x1p-10;
    case DType::bf16: return 0x1p-7;
    default: return 0x1p-23;
  }
}
/// The smallest positive number of the type: sums of narrow floats are rounded to whole ones of it.
double smallest(DType t) { return t == DType::f64 ? 5e-324 : t == DType::f16 ? 0x1p-24 : 0x1p-126; }

double largest(const Tensor& t) {
  double most = 0;
  for (double v : t.to_doubles())
    if (std::isfinite(v)) most = std::max(most, std::abs(v));
  return most;
}

bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

/// What differs; empty: nothing. Winograd's transforms divide, so that its sums are never exact.
std::string difference(const Case& c, const Candidate& candidate, const std::vector<Tensor>& got, const std::vector<Tensor>& want,
                       double magnitude) {
  for (size_t o = 0; o < want.size(); ++o) {
    if (!want[o].valid()) continue;
    const DType type = want[o].type();
    const std::vector<double> g = got[o].to_doubles(), w = want[o].to_doubles();
    constexpr double winograd_roundings = 400;
    const bool transformed = candidate.tactic == "winograd" && is_float(type);
    const double roundings = transformed ? std::max(c.roundings, winograd_roundings) : c.roundings;
    const double units = transformed ? std::max(c.units, 1.0) : c.units;
    const double most = roundings == 0 ? 0 : magnitude > 0 ? magnitude : largest(want[o]);
    int64_t wrong = 0;
    size_t first = 0;
    for (size_t i = 0; i < w.size(); ++i) {
      if (same(g[i], w[i])) continue;
      double allowed = c.steps;
      if (is_float(type)) {
        allowed = units * unit(type) * std::abs(w[i]) + roundings * (type == DType::f64 ? 0x1p-53 : 0x1p-24) * most;
        if (allowed > 0) allowed += smallest(type);
      }
      if (std::isfinite(g[i]) && std::isfinite(w[i]) && std::abs(g[i] - w[i]) <= allowed) continue;
      if (wrong++ == 0) first = i;
    }
    if (wrong == 0) continue;
    Shape at;
    const Shape dense = strides(want[o].shape());
    for (size_t a = 0, rest = first; a < dense.size(); ++a) {
      at.push_back(static_cast<int64_t>(rest) / dense[a]);
      rest %= static_cast<size_t>(dense[a]);
    }
    return fmt::format("output {} {}{}: {} of {} elements, the first [{}]: {} for {}", o, name(type), to_string(want[o].shape()),
                       wrong, w.size(), fmt::join(at, ","), g[first], w[first]);
  }
  return "";
}

bool same_bits(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  for (size_t o = 0; o < a.size(); ++o)
    if (a[o].valid() && std::memcmp(a[o].raw(), b[o].raw(), static_cast<size_t>(a[o].nbytes())) != 0) return false;
  return true;
}

/// The inputs that a seed gives; constants are the case's own.
std::vector<Tensor> inputs_of(const Case& c, uint32_t seed) {
  std::vector<Tensor> inputs = c.trial.inputs;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (c.fills[i]) inputs[i] = c.fills[i](seed + 31 * static_cast<uint32_t>(i));
  return inputs;
}

/// What a signal's handler writes, where a candidate ends the process.
std::string running;

void say_what_runs(int number) {
  if (write(STDERR_FILENO, running.data(), running.size()) < 0) _exit(1);
  signal(number, SIG_DFL);
  raise(number);
}

std::string about(const Candidate& c) { return c.tactic + (c.config.empty() ? "" : " " + c.config); }

/// Of one candidate: what it makes of two sets of inputs, of the first again, and in the place of an input.
std::string try_candidate(Case& c, const Candidate& candidate, const std::vector<std::vector<Tensor>>& inputs,
                          const std::vector<std::vector<Tensor>>& want, const std::vector<double>& magnitudes) {
  Prepared prepared(c.trial, candidate);
  std::vector<Tensor> first;
  for (const size_t set : {0, 1, 0}) {
    const bool again = set == 0 && !first.empty();
    std::vector<Tensor> got = prepared.run(inputs[set]);
    const char* which = again ? "the first inputs again" : set == 0 ? "the first inputs" : "other inputs";
    if (std::string d = difference(c, candidate, got, want[set], magnitudes[set]); !d.empty())
      return fmt::format("{}, {}: {}", about(candidate), which, d);
    if (!prepared.beside().empty()) return fmt::format("{}, {}: {}", about(candidate), which, prepared.beside());
    if (again && !same_bits(first, got)) return about(candidate) + ": the first inputs again: other bits than before";
    if (set == 0) first = std::move(got);
  }
  for (size_t i = 0; i < c.trial.inputs.size(); ++i) {
    if (!c.trial.inputs[i].valid() || !may_be_output(c.trial.bound, i) || !prepared.kernel().in_place(i)) continue;
    const std::vector<Tensor> got = prepared.run(inputs[0], i);
    if (std::string d = difference(c, candidate, got, want[0], magnitudes[0]); !d.empty())
      return fmt::format("{}, in place of input {}: {}", about(candidate), i, d);
    if (!prepared.beside().empty()) return fmt::format("{}, in place of input {}: {}", about(candidate), i, prepared.beside());
  }
  return "";
}

std::string print(const Node& n) {
  std::string text = (n.domain.empty() ? "" : n.domain + ".") + n.op;
  for (const auto& [key, value] : n.attrs) {
    if (const auto* v = std::get_if<int64_t>(&value)) text += fmt::format(" {}={}", key, *v);
    if (const auto* v = std::get_if<float>(&value)) text += fmt::format(" {}={}", key, *v);
    if (const auto* v = std::get_if<std::string>(&value)) text += fmt::format(" {}={}", key, *v);
    if (const auto* v = std::get_if<std::vector<int64_t>>(&value)) text += fmt::format(" {}={}", key, fmt::join(*v, ","));
  }
  return n.program ? text + " " + n.program->print() : text;
}

std::string print(const Case& c, const std::string& problem) {
  std::string text = print(c.trial.node) + "\n  ";
  for (const BoundTensor& t : c.trial.bound.inputs) text += " " + ops::print(t) + (t.constant.valid() ? " constant," : ",");
  text += " >";
  for (const BoundTensor& t : c.trial.bound.outputs) text += " " + ops::print(t);
  return text + fmt::format("\n   {} threads, {} numbers; {}", c.threads, c.values == Values::whole ? "whole" : "real", problem);
}

}  // namespace

std::function<Tensor(uint32_t)> Case::numbers(DType type, const Shape& shape, double low, double high) const {
  if (is_float(type) && values == Values::real) return [=](uint32_t s) { return random_tensor(type, shape, s); };
  if (is_float(type)) return [=](uint32_t s) { return random_tensor(DType::i32, shape, s, low - 0.99, high + 0.99).cast(type); };
  if (bits(type) == 8 && type != DType::boolean)
    return [=](uint32_t s) {  // all values; of one in four tensors the outermost ones alone
      const double least = type == DType::i8 ? -128 : 0;
      Tensor t = random_tensor(DType::f64, shape, s, least, least + 255.99);
      for (double& v : t.span<double>()) v = std::floor(s % 4 == 1 ? (v < least + 128 ? least : least + 255) : v);
      return t.cast(type);
    };
  return [=](uint32_t s) { return random_tensor(type, shape, s, is_signed(type) ? -9.99 : 0, 9.99); };
}

std::vector<Tensor> Case::want(std::span<const Tensor> inputs) const {
  Node node = trial.node;
  if (!same_as.empty()) node.op = same_as, node.domain = "";
  return evaluate(node, inputs);
}

void Case::results() {
  trial.bound.node = &trial.node;
  if (trial.node.outputs.empty()) trial.node.outputs.push_back(static_cast<ValueId>(101));
  for (const Tensor& t : want(trial.inputs)) {
    BoundTensor& y = trial.bound.outputs.emplace_back();
    if (t.valid()) y.type = t.type(), y.shape = t.shape();
  }
}

void Case::widen(BoundTensor& t, int64_t more) {
  t.alignment = std::max<int64_t>(1, bytes(t.type, 1));
  if (more == 0 || t.shape.size() < 2) return;
  Shape whole = t.shape;
  whole[t.layout == Layout::nhwc ? 1 : whole.size() - 1] += more;
  BoundTensor of = t;
  of.shape = whole;
  t.strides = memory_strides(of);
}

std::string findings(Case& c, int& ran) {
  ran = 0;
  Trial& t = c.trial;
  t.bound.node = &t.node;
  Machine machine;
  machine.threads = c.threads;
  machine.isa = "avx2";
  std::string problem = "no offer";
  try {
    std::vector<std::vector<Tensor>> inputs, want;
    std::vector<double> magnitudes;
    for (const uint32_t seed : {c.seed, c.seed + 7777}) {
      inputs.push_back(inputs_of(c, seed));
      want.push_back(c.want(inputs.back()));
      magnitudes.push_back(c.magnitude && (c.roundings > 0 || c.values == Values::whole) ? c.magnitude(inputs.back()) : 0);
    }
    const Offer o = offer(t.bound, machine);
    problem = o.problem;
    for (const Candidate& candidate : o.candidates) {
      if (candidate.tactic == "reference") continue;
      ++ran;
      running = fmt::format("{}, which ended the process\n  {}\n", about(candidate), print(c, problem));
      if (const std::string wrong = try_candidate(c, candidate, inputs, want, magnitudes); !wrong.empty())
        return wrong + "\n  " + print(c, problem);
    }
  } catch (const Error& e) {
    if (e.code() == ExitCode::unsupported) return "";  // layouts that nothing takes
    return std::string("it throws: ") + e.what() + "\n  " + print(c, problem);
  }
  return "";
}

namespace {

/// A case of these decisions, or nothing where the operator does not take what they say.
std::optional<Case> made(const Family& family, Choices& choices) {
  try {
    return family.make(choices);
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// What is wrong with the case of the decisions.
std::string wrong_with(const Family& family, const std::vector<uint32_t>& decisions) {
  Choices choices(decisions);
  std::optional<Case> c = made(family, choices);
  int ran = 0;
  return c ? findings(*c, ran) : "";
}

/// Smaller decisions with which something is still wrong; what it is then.
std::string shrink(const Family& family, std::vector<uint32_t> decisions, std::string wrong) {
  constexpr int most_tries = 400;
  int tries = 0;
  for (bool smaller = true; smaller && tries < most_tries;) {
    smaller = false;
    for (size_t i = 0; i < decisions.size() && tries < most_tries; ++i) {
      const uint32_t own = decisions[i];
      for (const uint32_t value : {0u, own / 2, own - 1}) {
        if (value >= decisions[i]) continue;
        std::vector<uint32_t> fewer = decisions;
        fewer[i] = value;
        ++tries;
        if (std::string w = wrong_with(family, fewer); !w.empty()) {
          wrong = std::move(w), decisions = std::move(fewer), smaller = true;
          break;
        }
      }
    }
  }
  return fmt::format("{}\n   decisions {}", wrong, fmt::join(decisions, ","));
}

}  // namespace

std::string scan(const Family& family, uint64_t seed, int64_t count, int64_t& ran) {
  for (const int number : {SIGSEGV, SIGFPE, SIGILL, SIGBUS}) {
    struct sigaction now {};
    sigaction(number, nullptr, &now);
    if (now.sa_handler == SIG_DFL) signal(number, say_what_runs);  // bench/avx2.c has one of its own
  }
  for (int64_t i = 0; i < count; ++i) {
    Choices choices(seed * 1'000'003 + static_cast<uint64_t>(i));
    std::optional<Case> c = made(family, choices);
    if (!c) continue;
    int candidates = 0;
    std::string wrong = findings(*c, candidates);
    ran += candidates;
    if (!wrong.empty())
      return fmt::format("{}: seed {}, case {}: {}\n  smaller: {}", family.name, seed, i, wrong,
                         shrink(family, choices.made(), wrong));
  }
  return "";
}

}  // namespace smelt::ops::scan
