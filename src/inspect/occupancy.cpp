#include "inspect/occupancy.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "base/error.h"

namespace smelt::inspect {
namespace {

constexpr int warp_size = 32, parts = 4, registers_per_part = 16384, register_unit = 256;
constexpr int most_threads = 1024, most_registers = 256;
constexpr int64_t kib = 1024;

// The CUDA programming guide, "Technical Specifications per Compute Capability".
constexpr Multiprocessor table[] = {
    {75, 32, 16, 32, 64 * kib, 64 * kib, 0, 256},      {80, 64, 32, 64, 164 * kib, 163 * kib, kib, 128},
    {86, 48, 16, 16, 100 * kib, 99 * kib, kib, 128},   {87, 48, 16, 16, 164 * kib, 163 * kib, kib, 128},
    {89, 48, 24, 24, 100 * kib, 99 * kib, kib, 128},   {90, 64, 32, 64, 228 * kib, 227 * kib, kib, 128},
    {100, 64, 32, 64, 228 * kib, 227 * kib, kib, 128}, {101, 48, 24, 24, 228 * kib, 227 * kib, kib, 128},
    {103, 64, 32, 64, 228 * kib, 227 * kib, kib, 128}, {110, 48, 24, 24, 228 * kib, 227 * kib, kib, 128},
    {120, 48, 24, 24, 100 * kib, 99 * kib, kib, 128},  {121, 48, 24, 24, 100 * kib, 99 * kib, kib, 128}};

template <class T> T rounded_up(T value, T unit) { return (value + unit - 1) / unit * unit; }

template <class T> std::optional<T> number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

std::optional<int64_t> size_in_bytes(std::string_view text) {
  int64_t unit = 1;
  for (const auto& [ending, bytes] : {std::pair<std::string_view, int64_t>{"KiB", kib}, {"K", kib}, {"B", 1}})
    if (text.ends_with(ending)) {
      text.remove_suffix(ending.size());
      unit = bytes;
      break;
    }
  const auto value = number<double>(text);
  if (!value || !(*value >= 0) || *value * static_cast<double>(unit) > 1e9) return {};
  return std::llround(*value * static_cast<double>(unit));
}

std::optional<int> product(std::string_view text) {
  int64_t all = 1;
  while (true) {
    const size_t end = std::min(text.find('x'), text.size());
    const auto factor = number<int>(text.substr(0, end));
    if (!factor || *factor < 1 || *factor > most_threads) return {};
    all *= *factor;
    if (all > most_threads) return {};
    if (end == text.size()) return static_cast<int>(all);
    text.remove_prefix(end + 1);
  }
}

/// The most registers with which registers let in so many blocks; 0: not even with one.
int registers_for(const Multiprocessor& m, Launch launch, int blocks) {
  for (launch.registers = most_registers - 1; launch.registers > 0; --launch.registers)
    if (occupancy(m, launch).of(Limit::registers) >= blocks) return launch.registers;
  return 0;
}

/// The most shared memory, of what a kernel asks for, with which it lets in so many; negative: not even with none.
int64_t shared_for(const Multiprocessor& m, int blocks) {
  return std::min(m.shared / blocks / m.shared_unit * m.shared_unit - m.reserved, m.shared_per_block);
}

Change least_change(const Multiprocessor& m, const Launch& launch, const Occupancy& now, int blocks) {
  Change c;
  Launch other = launch;
  if (now.of(Limit::registers) < blocks) c.registers = other.registers = registers_for(m, launch, blocks);
  if (now.of(Limit::shared) < blocks) {
    c.shared = shared_for(m, blocks);
    other.static_shared = 0;
    other.dynamic_shared = std::max<int64_t>(*c.shared, 0);
  }
  const Occupancy then = occupancy(m, other);  // registers are given out by so many that a block more may fit
  c.blocks = then.blocks;
  c.warps = then.warps;
  return c;
}

std::string blocks_text(int blocks) { return fmt::format("{} block{}", blocks, blocks == 1 ? "" : "s"); }

}  // namespace

std::string Multiprocessor::arch() const { return fmt::format("sm_{}", capability); }

std::span<const Multiprocessor> multiprocessors() { return table; }

const Multiprocessor* find_multiprocessor(std::string_view arch) {
  std::string digits(arch);
  if (digits.starts_with("sm_"))
    digits.erase(0, 3);
  else if (const size_t point = digits.find('.'); point != digits.npos)
    digits.erase(point, 1);
  while (digits.ends_with('a') || digits.ends_with('f')) digits.pop_back();  // with its own instructions, of its family
  const auto capability = number<int>(digits);
  const auto* at = std::ranges::find(table, capability.value_or(0), &Multiprocessor::capability);
  return at == std::end(table) ? nullptr : at;
}

const Multiprocessor& multiprocessor_of(std::string_view arch) {
  if (const Multiprocessor* m = find_multiprocessor(arch)) return *m;
  std::string known;
  for (const Multiprocessor& m : table) known += (known.empty() ? "" : ", ") + m.arch();
  throw Error(fmt::format("'{}' is no architecture whose limits are known", arch), "They are: " + known, ExitCode::usage);
}

Launch parse_launch(std::string_view text, Launch launch) {
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(item.size() + 1, text.size()));
    const size_t equals = item.find('=');
    const std::string_view key = item.substr(0, equals), value = equals == item.npos ? "" : item.substr(equals + 1);
    const auto wrong = [&](std::string_view wanted) {
      throw Error(fmt::format("--launch: '{}': {}", item, wanted),
                  "As in regs=63,smem=70KiB,threads=128; also static=4KiB, barriers=2", ExitCode::usage);
    };
    if (key == "regs" || key == "registers") {
      const auto n = number<int>(value);
      if (!n || *n < 0 || *n > 255) wrong("a thread has 0 to 255 registers");
      launch.registers = n.value_or(0);
    } else if (key == "smem" || key == "shared" || key == "static") {
      const auto n = size_in_bytes(value);
      if (!n) wrong("bytes, or KiB: 70KiB");
      (key == "static" ? launch.static_shared : launch.dynamic_shared) = n.value_or(0);
    } else if (key == "threads") {
      const auto n = product(value);
      if (!n) wrong("a block has 1 to 1024 threads: 128, 16x16");
      launch.threads = n.value_or(0);
    } else if (key == "barriers") {
      const auto n = number<int>(value);
      if (!n || *n < 0 || *n > 16) wrong("a block has 0 to 16 barriers");
      launch.barriers = n.value_or(0);
    } else {
      wrong("there is regs, smem, static, threads and barriers");
    }
  }
  return launch;
}

std::string_view name(Limit l) {
  constexpr std::string_view names[] = {"registers", "shared memory", "warps", "blocks", "barriers"};
  return names[static_cast<size_t>(l)];
}

std::string Occupancy::limiter() const {
  std::vector<std::string_view> names;
  for (const Limit l : all_limits)
    if (limited_by(l)) names.push_back(name(l));
  std::string text;
  for (size_t i = 0; i < names.size(); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : i + 1 == names.size() ? " and " : ", ", names[i]);
  return text;
}

Occupancy occupancy(const Multiprocessor& m, const Launch& launch) {
  Occupancy o;
  o.most_warps = m.warps;
  o.warps_per_block = (launch.threads + warp_size - 1) / warp_size;
  o.registers_per_warp = rounded_up<int64_t>(int64_t{launch.registers} * warp_size, register_unit);
  o.shared_per_block = rounded_up(launch.shared() + m.reserved, m.shared_unit);
  o.limits.fill(Occupancy::no_limit);
  const auto set = [&](Limit l, int64_t blocks) {
    o.limits[static_cast<size_t>(l)] = static_cast<int>(std::min<int64_t>(blocks, Occupancy::no_limit));
  };
  const auto refuse = [&](Limit l, std::string why) {
    set(l, 0);
    if (o.refused.empty()) o.refused = std::move(why);
  };
  set(Limit::blocks, m.blocks);
  set(Limit::warps, o.warps_per_block > 0 ? m.warps / o.warps_per_block : 0);
  if (launch.threads > most_threads)
    refuse(Limit::warps, fmt::format("a block has {} threads, at most {}", launch.threads, most_threads));
  if (o.registers_per_warp > 0) {
    // Whole warps lie in one part each. The check at a launch takes as many warps for each part.
    const int64_t checked = o.registers_per_warp * rounded_up(o.warps_per_block, parts);
    if (launch.registers > most_registers)
      refuse(Limit::registers, fmt::format("{} registers a thread, at most {}", launch.registers, most_registers));
    else if (checked > parts * registers_per_part)
      refuse(Limit::registers, fmt::format("a block of {} threads with {} registers takes {}, and there are {}", launch.threads,
                                           launch.registers, checked, parts * registers_per_part));
    else
      set(Limit::registers, registers_per_part / o.registers_per_warp * parts / o.warps_per_block);
  }
  if (o.shared_per_block > m.shared_per_block + m.reserved)
    refuse(Limit::shared, fmt::format("a block asks for {} of shared memory, at most {}", bytes_text(launch.shared()),
                                      bytes_text(m.shared_per_block)));
  else if (o.shared_per_block > 0)
    set(Limit::shared, m.shared / o.shared_per_block);
  // Before 9.0 the blocks' limit is met first: what a kernel may use fits the most blocks.
  if (launch.barriers > 0 && m.capability >= 90) set(Limit::barriers, m.barriers / launch.barriers);
  o.blocks = std::ranges::min(o.limits);
  o.warps = o.blocks * o.warps_per_block;
  return o;
}

std::vector<Change> changes(const Multiprocessor& m, const Launch& launch) {
  const Occupancy now = occupancy(m, launch);
  std::vector<Change> found;
  // What holds it now may change; the rest stays.
  int most = std::min({now.of(Limit::warps), now.of(Limit::blocks), now.of(Limit::barriers)});
  for (const Limit l : {Limit::registers, Limit::shared})
    if (!now.limited_by(l)) most = std::min(most, now.of(l));
  const auto add = [&](int blocks) {
    const Change c = least_change(m, launch, now, blocks);
    if (c.registers == 0 || (c.shared && *c.shared < 0)) return;  // not even with none
    found.push_back(c);
  };
  if (most > now.blocks) add(now.blocks + 1);
  for (int blocks = most; blocks > (found.empty() ? now.blocks + 1 : found.back().blocks); --blocks) {
    const size_t before = found.size();
    add(blocks);
    if (found.size() > before) break;
  }
  // How shared memory would grow with other blocks is not known: they are tried where there is none.
  if (launch.shared() > 0 || now.warps == m.warps) return found;
  Change best{.blocks = now.blocks, .warps = now.warps};
  for (int threads = warp_size; threads <= most_threads; threads += warp_size) {
    Launch other = launch;
    other.threads = threads;
    const Occupancy o = occupancy(m, other);
    const auto distance = [&](int t) { return std::abs(t - launch.threads); };
    if (o.warps > best.warps || (o.warps == best.warps && best.threads && distance(threads) < distance(best.threads.value_or(0))))
      best = {.threads = threads, .blocks = o.blocks, .warps = o.warps};
  }
  if (best.threads) found.push_back(best);
  return found;
}

std::vector<std::string> what_if(const Multiprocessor& m, const Launch& launch) {
  const Occupancy now = occupancy(m, launch);
  std::vector<std::string> texts;
  for (const Change& c : changes(m, launch)) {
    const std::string was = now.blocks == 0 ? "none" : std::to_string(now.blocks);
    if (c.threads) {
      texts.push_back(fmt::format("at {} threads a block, {} warps ({}) instead of {}", *c.threads, c.warps,
                                  blocks_text(c.blocks), now.warps));
      continue;
    }
    std::string at;
    if (c.registers) at = fmt::format("{} registers", *c.registers);
    if (c.shared) at += fmt::format("{}{} of shared memory", at.empty() ? "" : " and ", bytes_text(*c.shared));
    texts.push_back(fmt::format("at {}, {} instead of {}", at, blocks_text(c.blocks), was));
  }
  return texts;
}

Change room(const Multiprocessor& m, const Launch& launch) {
  const Occupancy now = occupancy(m, launch);
  Change c{.blocks = now.blocks, .warps = now.warps};
  if (now.blocks == 0) return c;
  c.registers = registers_for(m, launch, now.blocks);
  c.shared = shared_for(m, now.blocks);
  return c;
}

std::string bytes_text(int64_t bytes) {
  if (bytes < kib) return fmt::format("{} bytes", bytes);
  std::string number = fmt::format("{:.1f}", static_cast<double>(bytes) / static_cast<double>(kib));
  if (number.ends_with(".0")) number.resize(number.size() - 2);
  return number + " KiB";
}

}  // namespace smelt::inspect
