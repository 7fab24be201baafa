#include "counters/evaluator.h"

#include "cupti/calls.h"
#include "session/lock.h"
#include "session/own_thread.h"
#include "session/thread_log.h"

namespace warpline::agent {

Evaluator::~Evaluator() { stop(); }

void* Evaluator::run(void* self) {
  pthread_setname_np(pthread_self(), "warpline-count");
  ignore_calls_of_this_thread();
  static_cast<Evaluator*>(self)->work();
  return nullptr;
}

bool Evaluator::start() noexcept {
  runs_ = start_own_thread(thread_, run, this);
  return runs_;
}

void Evaluator::stop() noexcept {
  if (!runs_) return;
  {
    const Lock lock(lock_);
    ends_ = true;
    pthread_cond_broadcast(&changed_);
  }
  pthread_join(thread_, nullptr);
  runs_ = false;
}

void Evaluator::take(CounterBatch& batch, const Metrics& metrics) noexcept {
  const Job job{&batch, &metrics};
  if (runs_) {
    try {
      const Lock lock(lock_);
      jobs_.push_back(job);
      batch.is_busy = true;
      ++under_way_;
      pthread_cond_broadcast(&changed_);
      return;
    } catch (...) {
    }
  }
  write(job);
}

void Evaluator::wait(const CounterBatch& batch) noexcept {
  const Lock lock(lock_);
  while (batch.is_busy) pthread_cond_wait(&changed_, &lock_);
}

void Evaluator::wait_for_all() noexcept {
  const Lock lock(lock_);
  while (under_way_ != 0) pthread_cond_wait(&changed_, &lock_);
}

void Evaluator::work() noexcept {
  while (true) {
    Job job{};
    {
      const Lock lock(lock_);
      while (jobs_.empty() && !ends_) pthread_cond_wait(&changed_, &lock_);
      if (jobs_.empty()) return;
      job = jobs_.front();
      jobs_.pop_front();
    }
    write(job);
    const Lock lock(lock_);
    job.batch->is_busy = false;
    --under_way_;
    pthread_cond_broadcast(&changed_);
  }
}

void Evaluator::write(const Job& job) noexcept {
  const CounterBatch& batch = *job.batch;
  if (RangeProfiler::ranges(functions_, batch.image) != batch.launches.size()) {
    ++mismatches_;  // which range is whose is not known
    return;
  }
  try {
    values_.resize(job.metrics->size());
  } catch (...) {
    return;
  }
  for (std::size_t range = 0; range < batch.launches.size(); ++range) {
    const std::uint32_t launch = batch.launches[range];
    if (launch == kUnwanted || !job.metrics->evaluate(batch.image, range, values_)) continue;
    LogLease log = definition_log();  // recording may be off by now
    if (!log) return;
    for (std::size_t i = 0; i < values_.size(); ++i) {
      log->put(raw::CounterValue{
          .metric = job.metrics->number(i), .launch = launch, .value = values_[i]});
    }
  }
}

}  // namespace warpline::agent
