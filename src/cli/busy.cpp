#include "cli/busy.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <thread>

#include "base/printable.h"

namespace smelt::cli {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto silent = 2s;      // what takes less needs no line
constexpr auto between = 250ms;  // two of them; a build's own are ten a second

struct State {
  std::mutex mutex;
  std::condition_variable ended;
  std::thread thread;
  bool shows = false, over = false, visible = false;
  std::string what;
  double part = -1;
  Clock::time_point since = Clock::now(), spoken = since;  // spoken: the last output of another kind
};

State& state() {
  static State s;
  return s;
}

/// To standard error; one that is closed or full is no error.
void write_part(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

void write_over(const std::string& text) {
  winsize size{};
  const int columns = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
  write_part("\r\033[K" + printable(text).substr(0, static_cast<size_t>(std::max(columns, 40)) - 1));
}

std::string duration(double seconds) {
  const int s = static_cast<int>(std::lround(seconds));
  return s < 60 ? fmt::format("{} s", s) : fmt::format("{} min {:02} s", s / 60, s % 60);
}

/// The caller holds the mutex.
void show_line(State& s) {
  const auto now = Clock::now();
  if (s.what.empty() || now - std::max(s.since, s.spoken) < silent) return;
  const double spent = std::chrono::duration<double>(now - s.since).count();
  std::string text = fmt::format("{}, {}", s.what, duration(spent));
  if (s.part > 0.02 && s.part < 1)
    text += fmt::format(": {:.0f}%, {} left", 100 * s.part, duration(spent * (1 - s.part) / s.part));
  write_over(text);
  s.visible = true;
}

void clear(State& s) {
  if (std::exchange(s.visible, false)) write_part("\r\033[K");
  s.spoken = Clock::now();
}

}  // namespace

BusyLine::BusyLine() {
  State& s = state();
  if (!isatty(STDERR_FILENO)) return;
  s.shows = true;
  s.thread = std::thread([&s] {
    std::unique_lock lock(s.mutex);
    while (!s.ended.wait_for(lock, between, [&] { return s.over; })) show_line(s);
  });
}

BusyLine::~BusyLine() {
  State& s = state();
  if (!s.thread.joinable()) return;
  {
    const std::lock_guard lock(s.mutex);
    s.over = true;
    clear(s);
  }
  s.ended.notify_one();
  s.thread.join();
}

void stage(std::string_view what) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.what = what, s.part = -1, s.since = Clock::now();
}

void stage_part(double part) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.part = part;
}

void stage_build(const Progress& p) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const bool last = p.done == p.total;
  // A build without measurements is too short for a line; ten updates a second are enough.
  if (!s.shows || p.seconds < 0.5 || (!last && Clock::now() - s.spoken < 100ms)) return;
  if (last) return clear(s);
  write_over(fmt::format("{} {}/{}, {} left: {}", p.doing, p.done, p.total, duration(p.seconds_left), p.problem));
  s.visible = true, s.spoken = Clock::now();
}

void clear_busy_line() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  clear(s);
}

}  // namespace smelt::cli
