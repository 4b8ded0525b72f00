#include "plan/joined_products.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "graph/fused.h"
#include "ops/cuda/gpu.h"
#include "plan/known_choices.h"
#include "plan/prepare_candidates.h"

namespace smelt::plan {
namespace {

/// The joined weights take memory that the model's own do not, so that what is as fast either way stays apart.
constexpr double clearly_less = 0.98;

bool is_joined(const Step& step) { return step.kind == StepKind::kernel && step.node->is("JoinedMatMul", smelt_domain); }

size_t products(const Step& step) { return step.outputs.size(); }

/// Operand `k` of product `i`.
TensorIndex operand(const Step& step, size_t i, size_t k) {
  const size_t first = 1 + products(step), each = (step.inputs.size() - first) / products(step);
  return step.inputs[first + i * each + k];
}
size_t operands(const Step& step) { return (step.inputs.size() - 1 - products(step)) / products(step); }

/// One value for all columns, of the same tensor in every product.
bool is_shared(const Segment& s, const Step& step, size_t k) {
  const TensorIndex first = operand(step, 0, k);
  const Shape& shape = s.tensor(first).shape;
  if (!shape.empty() && shape.back() != 1) return false;
  for (size_t i = 1; i < products(step); ++i)
    if (operand(step, i, k) != first) return false;
  return true;
}

int64_t columns(const Segment& s, const Step& step) {
  int64_t sum = 0;
  for (TensorIndex t : step.outputs) sum += s.tensor(t).shape.back();
  return sum;
}

/// Side by side along the last axis: `rows` rows of each in turn.
Tensor side_by_side(const std::vector<Tensor>& parts, int64_t rows, Shape shape) {
  Tensor all = Tensor::empty(parts[0].type(), std::move(shape));
  auto* to = static_cast<std::byte*>(all.raw());
  for (int64_t r = 0; r < rows; ++r) {
    for (const Tensor& part : parts) {
      const auto chunk = static_cast<size_t>(part.nbytes() / rows);
      std::memcpy(to, static_cast<const std::byte*>(part.raw()) + static_cast<size_t>(r) * chunk, chunk);
      to += chunk;
    }
  }
  return all;
}

/// A step with its problem.
struct Priced {
  std::shared_ptr<const Node> keeps;  // what `node` is bound to
  ops::BoundNode node;
  ops::Offer offer;
};

double estimate_us(const std::vector<Priced>& steps, const tune::Tuner& tuner) {
  double sum = 0;
  for (const Priced& p : steps) sum += tuner.estimate_us(p.offer);
  return sum;
}

std::string problems(const std::vector<Priced>& steps) {
  std::string text;
  for (const Priced& p : steps) text += (text.empty() ? "" : " + ") + p.offer.problem;
  return text;
}

}  // namespace

class JoinedProducts::Pass {
 public:
  Pass(JoinedProducts& choices, Segment& s, Context& context, bool may_measure, AcceptedLayouts* accepted)
      : choices_(choices),
        s_(s),
        context_(context),
        accepted_(accepted),
        searches_(may_measure || !context.target.is_host),
        measures_(may_measure && context.tuner.measures() && (context.target.is_host || context.tuner.machine().gpu->device)) {}

  void run(bool join) {
    if (join && measures_ && !context_.target.is_host) measure();
    for (size_t i = 0; i < s_.steps.size(); ++i) {
      if (!is_joined(s_.steps[i])) continue;
      std::optional<Decision> d = join ? decided(i) : Decision{};
      bool joined = false;
      if (!d) {
        // Only what is compared is there twice.
        std::optional<Joined> form = joined_form(i);
        d = decide(i, form);
        if (form && d->joined) s_ = std::move(form->segment), joined = true;
      } else if (d->joined) {
        joined = this->join(s_, i).has_value();
      }
      if (joined) {
        s_.steps[i].fused = d->times;
      } else {
        const std::lock_guard lock(choices_.mutex_);
        choices_.constants_.erase(s_.steps[i].id);
        take_apart(s_, i, d->times);
      }
    }
  }

 private:
  /// A segment in which the step is one product, and the Split behind it a view.
  struct Joined {
    Segment segment;
    std::vector<size_t> readers;  // kernel steps, in the segment as it is without: those that read slices, or became views
  };

  /// Both ways; a reader whose problem is the same in both is in neither.
  struct Ways {
    std::vector<Priced> joined, apart;
    std::string name() const { return fmt::format("joined or apart: {} | {}", problems(joined), problems(apart)); }
  };

  const Node& node(size_t i) const { return *s_.steps[i].node; }

  std::shared_ptr<const Constants> constants(const Step& step) {
    {
      const std::lock_guard lock(choices_.mutex_);
      if (const auto at = choices_.constants_.find(step.id); at != choices_.constants_.end()) return at->second;
    }
    auto made = std::make_shared<Constants>();
    const bool by_columns = step.node->get_int("transB", 0) != 0;
    const int64_t n = columns(s_, step);
    std::vector<Tensor> parts;
    for (size_t i = 0; i < products(step); ++i) {
      parts.push_back(s_.tensor(step.inputs[1 + i]).constant);
      if (!parts.back().valid() || parts.back().rank() != 2) return nullptr;
    }
    const int64_t depth = parts[0].shape()[by_columns ? 1 : 0];
    for (const Tensor& w : parts)
      if (w.type() != parts[0].type() || w.shape()[by_columns ? 1 : 0] != depth || bits(w.type()) % 8 != 0) return nullptr;
    made->push_back(side_by_side(parts, by_columns ? 1 : depth, by_columns ? Shape{n, depth} : Shape{depth, n}));
    for (size_t k = 0; k < operands(step); ++k) {
      made->emplace_back();
      if (is_shared(s_, step, k)) continue;
      parts.clear();
      for (size_t i = 0; i < products(step); ++i) {
        parts.push_back(s_.tensor(operand(step, i, k)).constant);
        if (!parts.back().valid() || parts.back().size() != s_.tensor(step.outputs[i]).shape.back()) return nullptr;
      }
      made->back() = side_by_side(parts, 1, {n});
    }
    const std::lock_guard lock(choices_.mutex_);
    return choices_.constants_.try_emplace(step.id, std::move(made)).first->second;
  }

  TensorIndex add_constant(Segment& s, const Tensor& t) const {
    BoundValue v;
    v.type = t.type();
    v.shape = t.shape();
    v.constant = t;
    v.fixed_layout = true;
    return add_tensor(s, std::move(v));
  }

  std::optional<Joined> joined_form(size_t at) {
    Joined j{s_, {}};
    auto readers = join(j.segment, at);
    if (!readers) return std::nullopt;
    for (size_t r : *readers) j.readers.push_back(r - 1);
    return j;
  }

  /// Makes the step one product, with a Split behind it that is a view. The kernel steps that read otherwise then; nothing, with
  /// the segment as it was, where there is no such form.
  std::optional<std::vector<size_t>> join(Segment& s, size_t at) {
    for (TensorIndex t : s.steps[at].outputs)
      if (elements(s.tensor(t).shape) == 0 || !s.tensor(t).strides.empty()) return std::nullopt;
    const auto constant = constants(s.steps[at]);
    if (!constant) return std::nullopt;
    const size_t tensors = s.tensors.size();
    Step whole = s.steps[at];
    place_product(s, at, *constant);
    if (auto readers = readers_in_place(s, at + 1)) return readers;
    s.steps.erase(s.steps.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    s.steps[at] = std::move(whole);
    s.tensors.resize(tensors);
    return std::nullopt;
  }

  /// read_in_place() of the Split at `at`: as it was decided for other extents, where kernels take that for these.
  std::optional<std::vector<size_t>> readers_in_place(Segment& s, size_t at) {
    const NodeId id = s.steps[at].id;
    std::optional<Movers> known;
    {
      const std::lock_guard lock(choices_.mutex_);
      if (const auto found = choices_.movers_.find(id); found != choices_.movers_.end()) known = found->second;
    }
    const auto runs = [this](const Step& step, const ops::BoundNode& node) {
      const auto ask = [&] { return is_offered(node, context_.tuner); };
      return accepted_ ? accepted_->runs(AcceptedLayouts::form_of(step, node), ask) : ask();
    };
    if (known && read_in_place(s, at, *known, context_.tuner, runs)) return std::vector<size_t>();
    auto made = read_in_place(s, at, context_.tuner);
    if (!made) return std::nullopt;
    const std::lock_guard lock(choices_.mutex_);
    choices_.movers_.try_emplace(id, made->movers);
    return std::move(made->readers);
  }

  /// The joined product in the place of the step, and the Split behind it.
  void place_product(Segment& s, size_t at, const Constants& constant) const {
    const Step& whole = s.steps[at];
    BoundValue all;
    all.type = s.tensor(whole.outputs[0]).type;
    all.shape = s.tensor(whole.outputs[0]).shape;
    all.shape.back() = columns(s, whole);
    const TensorIndex y = add_tensor(s, std::move(all));

    Step product;
    product.id = whole.id;
    product.part = 0;
    product.of_joined = true;
    product.inputs = {whole.inputs[0], add_constant(s, constant[0])};
    for (size_t k = 0; k < operands(whole); ++k)
      product.inputs.push_back(constant[1 + k].valid() ? add_constant(s, constant[1 + k]) : operand(whole, 0, k));
    product.outputs = {y};
    Node node = product_of_joined(*whole.node, 0);
    node.name = whole.node->name;
    product.node = std::make_shared<const Node>(std::move(node));

    Step split;
    Node parts{.domain = "", .op = "Split", .name = whole.node->name};
    parts.attrs["axis"] = int64_t{-1};
    parts.sources = whole.node->sources;
    parts.inputs = {whole.node->out()};
    parts.outputs = whole.node->outputs;
    split.id = whole.id;
    split.part = parts_a_product;
    split.node = std::make_shared<const Node>(std::move(parts));
    split.inputs = {y};
    split.outputs = whole.outputs;

    s.steps[at] = std::move(product);
    s.steps.insert(s.steps.begin() + static_cast<std::ptrdiff_t>(at) + 1, std::move(split));
  }

  Step product_step(const Step& whole, size_t i) const {
    Step step;
    step.id = whole.id;
    step.part = static_cast<int>(i) * parts_a_product;
    step.of_joined = true;
    step.node = std::make_shared<const Node>(product_of_joined(*whole.node, i));
    step.inputs = {whole.inputs[0], whole.inputs[1 + i]};
    for (size_t k = 0; k < operands(whole); ++k) step.inputs.push_back(operand(whole, i, k));
    step.outputs = {whole.outputs[i]};
    return step;
  }

  void take_apart(Segment& s, size_t at, const std::shared_ptr<const FusedTimes>& times) const {
    const Step whole = s.steps[at];
    std::vector<Step> steps;
    for (size_t i = 0; i < products(whole); ++i) {
      steps.push_back(product_step(whole, i));
      steps.back().fused = times;
    }
    const auto place = s.steps.erase(s.steps.begin() + static_cast<std::ptrdiff_t>(at));
    s.steps.insert(place, std::make_move_iterator(steps.begin()), std::make_move_iterator(steps.end()));
  }

  Priced priced(const Segment& s, const Step& step) {
    Priced p{step.node, bound_node(s, step, &context_.weights), {}};
    p.offer = searches_ ? ops::offer(p.node, context_.tuner.machine()) : offer_unmeasured(p.node, context_.tuner);
    return p;
  }

  Ways ways(size_t at, const Joined& j) {
    const size_t count = products(s_.steps[at]);
    Segment apart = s_;
    take_apart(apart, at, nullptr);
    std::vector<size_t> readers;
    for (size_t r : j.readers) readers.push_back(r + count - 1);
    if (!context_.target.is_host) assign_views(apart, readers, context_.tuner);  // as the plan will have them
    Ways w;
    w.joined.push_back(priced(j.segment, j.segment.steps[at]));
    for (size_t i = 0; i < count; ++i) w.apart.push_back(priced(apart, apart.steps[at + i]));
    for (size_t i = 0; i < readers.size(); ++i) {
      const Step &with = j.segment.steps[j.readers[i] + 1], &without = apart.steps[readers[i]];
      std::optional<Priced> slices, dense;
      if (with.kind == StepKind::kernel) slices = priced(j.segment, with);
      if (without.kind == StepKind::kernel) dense = priced(apart, without);
      if (slices && dense && slices->offer.problem == dense->offer.problem) continue;
      if (slices) w.joined.push_back(std::move(*slices));
      if (dense) w.apart.push_back(std::move(*dense));
    }
    return w;
  }

  std::optional<Decision> decided(size_t at) const {
    const std::lock_guard lock(choices_.mutex_);
    if (const auto d = choices_.decided_.find(s_.steps[at].id); d != choices_.decided_.end()) return d->second;
    if (const auto apart = choices_.apart_.carried(entry(node(at)))) return Decision{nullptr, !*apart};
    return std::nullopt;
  }

  Decision decide(size_t at, const std::optional<Joined>& joined) {
    const Step& step = s_.steps[at];
    Decision d;
    if (joined) {
      d = compared(at, *joined);
    } else {
      info("the products around '{}' run apart: what reads one of them takes no slice of a larger result", node(at).name);
      FusedTimes times{.fused_us = std::numeric_limits<double>::infinity(), .measured = false, .runs_apart = true};
      std::vector<Priced> apart;
      for (size_t i = 0; i < products(step); ++i) apart.push_back(priced(s_, product_step(step, i)));
      times.apart_us = estimate_us(apart, context_.tuner);
      d.times = std::make_shared<const FusedTimes>(times);
    }
    if (!d.joined) choices_.apart_.add(entry(node(at)));
    const std::lock_guard lock(choices_.mutex_);
    return choices_.decided_.try_emplace(step.id, d).first->second;
  }

  Decision compared(size_t at, const Joined& joined) {
    const Ways both = ways(at, joined);
    const std::string name = both.name();
    {
      const std::lock_guard lock(choices_.mutex_);
      if (const auto d = choices_.by_problem_.find(name); d != choices_.by_problem_.end()) return d->second;
    }
    FusedTimes times{.fused_us = estimate_us(both.joined, context_.tuner),
                     .apart_us = estimate_us(both.apart, context_.tuner),
                     .measured = false};
    times.runs_apart = times.fused_us >= clearly_less * times.apart_us;
    if (measures_ && !context_.tuner.time_is_up()) measure(both, name, times);
    info("the products around '{}' take {:.1f} µs joined, {:.1f} µs apart: they run {}", node(at).name, times.fused_us,
         times.apart_us, times.runs_apart ? "apart" : "joined");
    const Decision d{std::make_shared<const FusedTimes>(times), !times.runs_apart};
    const std::lock_guard lock(choices_.mutex_);
    return choices_.by_problem_.try_emplace(name, d).first->second;
  }

  void measure(const Ways& both, const std::string& name, FusedTimes& times) {
    tune::Tuner& tuner = context_.tuner;
    double joined = 0, apart = 0;
    if (context_.target.is_host) {
      std::vector<tune::Tuner::Way> raced = {{"joined", {}}, {"apart", {}}};
      for (const Priced& p : both.joined) raced[0].parts.push_back({&p.node, &p.offer});
      for (const Priced& p : both.apart) raced[1].parts.push_back({&p.node, &p.offer});
      const std::vector<tune::Timing> found = tuner.race(name, raced);
      if (found.empty()) return;
      joined = found[0].min, apart = found[1].min;
    } else {
      for (const Priced& p : both.joined) joined += tuner.time_us(p.node, p.offer);
      for (const Priced& p : both.apart) apart += tuner.time_us(p.node, p.offer);
      if (tuner.time_is_up()) return;
    }
    times = {joined, apart, true, false, joined >= clearly_less * apart};
  }

  /// The problems on a GPU, all of them at once.
  void measure() {
    std::map<std::string, Priced> all;
    for (size_t i = 0; i < s_.steps.size(); ++i) {
      if (!is_joined(s_.steps[i]) || decided(i)) continue;
      const auto joined = joined_form(i);
      if (!joined) continue;
      Ways both = ways(i, *joined);
      for (auto* way : {&both.joined, &both.apart})
        for (Priced& p : *way) all.try_emplace(p.offer.problem, std::move(p));
    }
    std::vector<RacedProblem> raced;
    for (const auto& [problem, p] : all) raced.push_back({&p.node, &p.offer});
    measure_in_stages(raced, context_);
  }

  static std::string entry(const Node& n) { return fmt::format("products {}", n.name); }

  JoinedProducts& choices_;
  Segment& s_;
  Context& context_;
  AcceptedLayouts* accepted_;
  bool searches_, measures_;
};

void JoinedProducts::apply(Segment& s, Context& context, bool may_measure, bool join, AcceptedLayouts* accepted) {
  if (std::ranges::any_of(s.steps, is_joined)) Pass(*this, s, context, may_measure, accepted).run(join);
}

}  // namespace smelt::plan
