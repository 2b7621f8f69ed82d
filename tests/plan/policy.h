// SPDX-License-Identifier: MIT
//
// Who decides in a simulated run: asked for a step, told what became of it.
#pragma once

#include <memory>

#include "plan/plan.h"

namespace shadowprof::plan {

class Policy {
 public:
  virtual ~Policy() = default;
  virtual Step next(const Situation& situation, const Prices& prices) = 0;
  virtual void forked(double now_s, double used_s, double pause_s) = 0;
  virtual void died(double now_s, const PastLife& life, const Prices& prices) = 0;
  virtual void burst(const Situation& situation, double pause_s, const Step& step) = 0;
  virtual void peeked(double now_s, double pause_s, bool found_new) = 0;
  // A replica, of which the program has copied so many pages: what that costs.
  virtual double worked(double worked_s, double executed_s, double copied_pages,
                        const Prices& prices) = 0;
  // The program slept.
  virtual void missed(double now_s, const Step& step) = 0;
  // It has written to so many pages that dead replicas had left to it.
  virtual void kept(double now_s, double pages, const Prices& prices) = 0;
  virtual double estimated_share(double now_s) const = 0;
  // A living replica has copied so much: it must not live on.
  virtual bool is_too_dear(double cost_s, double pause_s, const Situation& situation,
                           const Prices& prices) const = 0;
};

std::unique_ptr<Policy> planned_policy(const Wishes& wishes);

}  // namespace shadowprof::plan
