#include "base/threads.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <thread>
#include <utility>

#include "base/helper_thread.h"
#include "base/waiting.h"
#include "base/widest.h"

namespace smelt {

ThreadPool::~ThreadPool() = default;

namespace threads {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;
using std::chrono::milliseconds;

// How long a thread that waits spins before it sleeps. Waking one takes 5 to 50 µs, so that it should be awake between the steps
// of a run; a core that a neighbour wants too is better left to it, or to the thread that is waited for.
constexpr microseconds spin_alone{1000}, spin_crowded{20};
// A loop that took so long for some reads was interrupted: somebody else has run on this core.
constexpr microseconds interruption{300};
// For so long after an interruption the cores count as crowded.
constexpr milliseconds crowded_for{20};
// A thread whose processor time stands still for so long, while it has a piece, waits for a core. The first look is short; a
// caller that sleeps looks again and again.
constexpr microseconds first_look{10}, look_asleep{1000};

constexpr uint32_t caller_sleeps = 1u << 31;

thread_local bool inside_region = false;
thread_local int widest = 1;  // Widest

Caller& this_caller() {
  thread_local Caller caller;
  return caller;
}

std::atomic<void (*)(int)> follower{nullptr};

void follow(const Team& before) {
  if (const auto tell = follower.load(std::memory_order_relaxed); tell && team().threads != before.threads) tell(team_threads());
}

}  // namespace

class Pool : public std::enable_shared_from_this<Pool> {
 public:
  /// Without `threads` the pool has helpers of its own.
  explicit Pool(const std::shared_ptr<ThreadPool>& threads) : has_helpers_(!threads), threads_(threads) {}

  void open(Region& r) {
    const int wanted = r.free_ = r.threads_ - 1;
    caller_processor_.store(sched_getcpu(), std::memory_order_relaxed);
    if (has_helpers_) r.caller_ = &this_caller();
    {
      std::lock_guard lock(lock_);
      r.before_ = last_;
      (last_ ? last_->after_ : first_) = &r;
      last_ = &r;
      spin_.store(r.spin_, std::memory_order_relaxed);
      if (has_helpers_)
        for (; helpers_ < wanted; ++helpers_) start_helper(helpers_);
      seats_.fetch_add(wanted);
    }
    if (!has_helpers_) {
      const std::shared_ptr<ThreadPool> threads = threads_.lock();
      for (int i = 0; threads && i < wanted; ++i) threads->schedule([self = shared_from_this()] { self->help(-1, nullptr); });
      return;
    }
    // A helper that stops to spin looks at seats_ again before it sleeps.
    if (const int asleep = wanted - spinning_.load(); asleep > 0 && sleeping_.load() > 0) {
      calls_.fetch_add(1);
      wake(calls_, asleep);
    }
  }

  void close(Region& r) {
    {
      std::lock_guard lock(lock_);
      seats_.fetch_sub(r.free_);
      (r.before_ ? r.before_->after_ : first_) = r.after_;
      (r.after_ ? r.after_->before_ : last_) = r.before_;
    }
    if (r.caller_) r.caller_->stay();
    wait_for_helpers(r);
  }

  /// Nobody is left but the calling thread, of a process that was made by fork.
  void forget_helpers() {
    std::destroy_at(&lock_);
    std::construct_at(&lock_);
    first_ = last_ = nullptr;
    helpers_ = 0;
    newest_ = nullptr;
    seats_ = spinning_ = sleeping_ = 0;
    this_caller().begin_anew();
  }

 private:
  void wait_for_helpers(Region& r) {
    const auto done = [&] { return r.inside_.load(std::memory_order_acquire) == 0; };
    if (done()) return;
    if (r.spin_) {
      const Clock::time_point start = Clock::now();
      if (spin_for(spin_crowded, done)) return;
      for (microseconds span = first_look; Clock::now() - start < spin_alone; span *= 2) {
        look_at_helpers(r);
        if (spin_for(span, done)) return;
        if (bring_helper(r) || crowded()) break;
      }
    }
    uint32_t inside = r.inside_.fetch_or(caller_sleeps) | caller_sleeps;
    while (inside != caller_sleeps) {
      look_at_helpers(r);
      sleep_while(r.inside_, inside, look_asleep);
      inside = r.inside_.load(std::memory_order_acquire);
      if (inside != caller_sleeps) bring_helper(r);
    }
  }

  template <class F> void each_helper_of(const Region& r, const F& f) {
    for (Helper* h = newest_.load(std::memory_order_acquire); h; h = h->before)
      if (h->region.load(std::memory_order_acquire) == &r) f(*h);
  }

  void look_at_helpers(const Region& r) {
    each_helper_of(r, [](Helper& h) { h.look(); });
  }

  /// One that has stood still since, to this thread's core; no other while it has a piece, as a core is no faster for two. False where
  /// there is none.
  bool bring_helper(const Region& r) {
    Helper* one = nullptr;
    each_helper_of(r, [&](Helper& h) {
      if (h.is_brought() || (!one && h.stands_still())) one = &h;
    });
    if (one) one->bring_here();
    return one != nullptr;
  }

  /// Works on a region, if there is one; `number` prefers the same part of each, `self` is null on a thread of a caller's pool.
  /// Regions are joined in the order of their opening: the threads of oneDNN's regions may wait for each other, so that none may go
  /// without while a later one has them.
  bool help(int number, Helper* self) {
    if (self) {
      self->go_back();
      const bool on_callers_core = sched_getcpu() == caller_processor_.load(std::memory_order_relaxed);
      if (on_callers_core && seats_.load(std::memory_order_relaxed) > 0) self->step_aside();
    }
    Region* r = nullptr;
    int thread = 0;
    {
      std::lock_guard lock(lock_);
      for (r = first_; r && r->free_ == 0;) r = r->after_;
      if (!r) return false;
      const auto is_free = [&](int t) { return t > 0 && t < r->threads_ && !r->parts_[t].taken; };
      thread = number + 1;
      if (!is_free(thread))
        for (thread = 1; !is_free(thread);) ++thread;
      r->parts_[thread].taken = true;
      --r->free_;
      seats_.fetch_sub(1);
      r->inside_.fetch_add(1, std::memory_order_relaxed);
    }
    if (self) self->region.store(r, std::memory_order_release);
    r->work(thread);
    if (self) self->region.store(nullptr, std::memory_order_release);
    r->leave();
    if (self) self->go_back();
    return true;
  }

  void start_helper(int number) {
    std::thread([this, number] {
      pthread_setname_np(pthread_self(), "smelt");
      ask_for_short_slices();
      Helper* const helper = new Helper;  // as long as the process: callers look at it at any time
      helper->before = newest_.load();
      while (!newest_.compare_exchange_weak(helper->before, helper)) {
      }
      for (;;) {
        if (help(number, helper)) continue;
        spinning_.fetch_add(1);
        const bool found = spin_for_region(*helper);
        spinning_.fetch_sub(1);
        if (!found) sleep_for_region(*helper);
      }
    }).detach();
  }

  bool crowded() const { return Clock::now().time_since_epoch().count() < crowded_until_.load(std::memory_order_relaxed); }

  bool is_called() const { return seats_.load(std::memory_order_relaxed) > 0; }

  /// True if there is one. Meanwhile the helper looks at callers: a piece of one that lost its core nobody else can end.
  bool spin_for_region(Helper& self) {
    const auto called = [&] { return is_called(); };
    if (!spin_.load(std::memory_order_relaxed)) return called();
    const Clock::time_point start = Clock::now();
    if (spin_for(spin_crowded, called)) return true;
    for (microseconds span = first_look; Clock::now() - start < spin_alone; span *= 2) {
      if (!look_at_callers() && crowded()) break;
      if (spin_for(span, called)) return true;
      if (bring_caller(self)) break;
    }
    return called();
  }

  /// May return before there is one.
  void sleep_for_region(Helper& self) {
    const uint32_t calls = calls_.load();
    sleeping_.fetch_add(1);
    while (seats_.load() <= 0 && calls_.load() == calls) {
      const bool has_callers = look_at_callers();
      sleep_while(calls_, calls, has_callers ? look_asleep : microseconds(0));
      if (has_callers && !is_called()) bring_caller(self);
    }
    sleeping_.fetch_sub(1);
  }

  /// False where there is none with a region.
  bool look_at_callers() {
    std::lock_guard lock(lock_);
    for (const Region* r = first_; r; r = r->after_) r->caller_->look();
    return first_ != nullptr;
  }

  /// One that has stood still since gets this helper's core, and the helper another. False where there is none.
  bool bring_caller(Helper& self) {
    Caller* one = nullptr;
    {
      std::lock_guard lock(lock_);
      for (const Region* r = first_; r && !one; r = r->after_)
        if (r->caller_->stands_still() && r->caller_->claim()) one = r->caller_;
    }
    if (!one || !one->bring_here()) return false;
    note_crowd(Clock::now());
    self.make_room();
    return true;
  }

  void note_crowd(Clock::time_point now) {
    crowded_until_.store((now + crowded_for).time_since_epoch().count(), std::memory_order_relaxed);
  }

  /// Until `done`, at most so long, and at most spin_crowded once somebody else has run on this core.
  template <class F> bool spin_for(microseconds most, const F& done) {
    const Clock::time_point start = Clock::now();
    Clock::time_point at = start, last = start;
    while (at - start < most) {
      for (int i = 0; i < 16; ++i) {
        if (done()) return true;
        pause();
      }
      last = std::exchange(at, Clock::now());
      if (at - last > interruption) {
        note_crowd(at);
        most = std::min(most, spin_crowded);
      }
    }
    return done();
  }

  const bool has_helpers_;
  // A task that comes late keeps the pool, but not the threads: they must not be ended by one of themselves.
  const std::weak_ptr<ThreadPool> threads_;
  alignas(64) SpinLock lock_;
  Region *first_ = nullptr, *last_ = nullptr;  // those that are open, in their order
  int helpers_ = 0;
  std::atomic<Helper*> newest_{nullptr};
  std::atomic<int> caller_processor_{-1};  // of the thread that opened a region last
  alignas(64) std::atomic<int> seats_{0};  // of helpers, free in open regions
  std::atomic<bool> spin_{true};           // as the last region asked
  alignas(64) std::atomic<uint32_t> calls_{0};
  std::atomic<int> spinning_{0}, sleeping_{0};
  alignas(64) std::atomic<Clock::rep> crowded_until_{0};
};

namespace {

/// The process's: its helpers outlive every static object.
const std::shared_ptr<Pool>& own_pool() {
  static const std::shared_ptr<Pool>* const pool = [] {
    pthread_atfork(nullptr, nullptr, [] { own_pool()->forget_helpers(); });
    return new std::shared_ptr<Pool>(std::make_shared<Pool>(nullptr));
  }();
  return *pool;
}

}  // namespace

/// A thread has one region at a time, so their parts share memory.
struct Parts {
  static Region::Part* of(int threads) {
    thread_local std::unique_ptr<Region::Part[]> parts;
    thread_local int count = 0;
    if (threads > count) parts.reset(new Region::Part[static_cast<size_t>(count = threads)]);
    return parts.get();
  }
};

Team& team() {
  thread_local Team team;
  return team;
}

Scope::Scope(int threads) : before_(team()) {
  team().threads = threads;
  follow(before_);
}

Scope::Scope(Team t) : before_(std::exchange(team(), std::move(t))) { follow(before_); }

Scope::~Scope() { follow(std::exchange(team(), std::move(before_))); }

void set_follower(void (*f)(int threads)) {
  follower.store(f);
  if (f) f(team_threads());
}

int team_threads() { return inside_region ? 1 : team().threads > 0 ? team().threads : usable_cores(); }

bool in_region() { return inside_region; }

Widest::Widest() : before_(std::exchange(widest, 1)) {}
Widest::~Widest() { widest = std::max(widest, before_); }
int Widest::threads() const { return widest; }

Region::Region(Task task, void* data, int64_t pieces, int threads)
    : task_(task), data_(data), threads_(threads), spin_(team().spin), parts_(Parts::of(threads)) {
  pool_ = team().pool ? team().pool : own_pool();
  widest = std::max(widest, threads);
  for (int t = 0; t < threads; ++t) {
    parts_[t].next.store(pieces * t / threads, std::memory_order_relaxed);
    parts_[t].end = pieces * (t + 1) / threads;
    parts_[t].taken = false;
  }
}

void Region::open(bool with_caller) {
  if (!with_caller) parts_[0].next.fetch_add(1, std::memory_order_relaxed);
  pool_->open(*this);
  inside_region = true;
}

void Region::work(int thread) noexcept {
  inside_region = true;
  for (int i = 0, t = thread; i < threads_; ++i, t = t + 1 < threads_ ? t + 1 : 0) {
    Part& part = parts_[t];
    while (part.next.load(std::memory_order_relaxed) < part.end) {
      const int64_t piece = part.next.fetch_add(1, std::memory_order_relaxed);
      if (piece >= part.end) break;
      task_(data_, piece, thread);
    }
  }
  inside_region = false;
}

void Region::leave() {
  std::atomic<uint32_t>& inside = inside_;
  if (inside.fetch_sub(1, std::memory_order_acq_rel) == (caller_sleeps | 1)) wake(inside, 1);
}

void Region::close() {
  work(0);
  pool_->close(*this);
}

void run(int threads, int64_t pieces, Task task, void* data) {
  threads = static_cast<int>(std::min<int64_t>(threads, pieces));
  if (threads > 1 && !inside_region) {
    Region region(task, data, pieces, threads);
    region.open();
    region.close();
    return;
  }
  for (int64_t piece = 0; piece < pieces; ++piece) task(data, piece, 0);
}

std::shared_ptr<Pool> pool_on(const std::shared_ptr<ThreadPool>& threads) { return std::make_shared<Pool>(threads); }

}  // namespace threads
}  // namespace smelt
