#include "cli/watch.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

#include "base/error.h"
#include "base/printable.h"
#include "base/threads.h"
#include "cli/service.h"
#include "device/cpu/load.h"
#include "report/live.h"

namespace smelt::cli {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double interval_s = 1;
constexpr size_t most_others = 5;

double seconds_since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

/// Tables on a terminal, each printed over the last; in a pipe one after the other; or a line of JSON each.
class Screen {
 public:
  explicit Screen(bool as_json) : as_json_(as_json) {}

  void show(const report::Live& live) {
    if (as_json_) return print(report::live_json(live) + "\n");
    winsize size{};
    const bool terminal = isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0;
    const size_t rows = terminal ? std::max<size_t>(size.ws_row, 20) : 40;
    std::string text;
    for (const report::Table& t : report::live_tables(live, rows - 17 - std::min<size_t>(live.models.size(), rows - 18)))
      if (!t.rows.empty()) text += printable(report::print(t, terminal ? size.ws_col : 180)) + "\n";
    if (!terminal) return print(text);
    std::string frame = lines_ > 0 ? fmt::format("\033[{}A", lines_) : "";
    lines_ = 0;
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      frame += text.substr(at, end - at) + "\033[K\n";
      at = end + 1, ++lines_;
    }
    print(frame + "\033[J");
  }

 private:
  static void print(const std::string& text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  }
  bool as_json_;
  size_t lines_ = 0;  // of the last frame
};

/// What the machine does beside those that are watched.
class Surroundings {
 public:
  explicit Surroundings(std::vector<int> watched) : watched_(std::move(watched)) {
    watched_.push_back(getpid());
    begin();
  }
  void begin() {
    at_ = Clock::now();
    processes_ = device::cpu::all_process_times();
    stolen_ns_ = meter_.full().stolen_ns;
  }
  /// Since begin().
  void tell(report::Live& live) {
    live.interval_s = seconds_since(at_);
    live.begun_s = seconds_since(begun_);
    live.cores = threads::usable_cores();
    live.others = device::cpu::busiest(processes_, device::cpu::all_process_times(), live.interval_s, watched_, most_others);
    live.stolen = static_cast<double>(meter_.full().stolen_ns - stolen_ns_) * 1e-9 / live.interval_s;
  }

 private:
  std::vector<int> watched_;
  device::cpu::LoadMeter meter_;
  std::map<int, device::cpu::ProcessTimes> processes_;
  int64_t stolen_ns_ = 0;
  Clock::time_point begun_ = Clock::now(), at_ = begun_;
};

}  // namespace

int watch_models(const ModelArguments& model, const Watch& w) {
  std::vector<std::string> paths{model.path};
  paths.insert(paths.end(), w.with.begin(), w.with.end());
  std::vector<std::unique_ptr<Service>> services;
  report::Live live;
  std::vector<int> pids;
  for (const std::string& path : paths) {
    note(fmt::format("starting {}", path));
    services.push_back(std::make_unique<Service>(model, std::vector{path}, Place{}));
    Readied ready = std::move(services.back()->ready().at(0));
    live.models.push_back({std::filesystem::path(path).filename().string(),
                           std::move(ready.steps),
                           std::move(ready.limiters),
                           std::move(ready.alone_us),
                           {},
                           {}});
    pids.push_back(services.back()->pid());
  }
  Screen screen(model.as_json);
  Surroundings around(pids);
  const auto begun = Clock::now();
  do {
    around.begin();
    for (const auto& s : services) s->go(interval_s, w.rate);
    for (size_t i = 0; i < services.size(); ++i) {
      report::LiveModel& m = live.models[i];
      m.served = std::move(services[i]->answer(interval_s + 120).at(0));
      m.p99_us.push_back(m.served.response().p99);
      if (m.p99_us.size() > report::most_kept) m.p99_us.pop_front();
    }
    around.tell(live);
    screen.show(live);
  } while (w.seconds <= 0 || seconds_since(begun) < w.seconds);
  return 0;
}

int watch_process(int pid, const Watch& w, bool as_json) {
  auto now = device::cpu::times_of(pid);
  if (!now)
    throw Error(fmt::format("there is no process {}", pid), "Give the number of one that runs: pid:1234", ExitCode::usage);
  Screen screen(as_json);
  Surroundings around({pid});
  report::Live live;
  const auto begun = Clock::now();
  do {
    around.begin();
    const auto before = *now;
    std::this_thread::sleep_for(std::chrono::duration<double>(interval_s));
    now = device::cpu::times_of(pid);
    if (!now) {
      note(fmt::format("process {} has ended", pid));
      return 0;
    }
    live.processes = {{pid, before, *now}};
    around.tell(live);
    screen.show(live);
  } while (w.seconds <= 0 || seconds_since(begun) < w.seconds);
  return 0;
}

}  // namespace smelt::cli
