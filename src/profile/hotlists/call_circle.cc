// SPDX-License-Identifier: MIT
#include "profile/hotlists/call_circle.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <queue>
#include <utility>

namespace shadowprof::profile {
namespace {

// Whoever has more neighbours is left to the dense matrix: to eliminate one takes the square of it.
constexpr size_t kMostNeighbours = 24;
// 0.3 s, about.
constexpr size_t kMostDense = 800;
// A circle that is never left is no circle of calls.
constexpr double kLeastPivot = 1e-12;

class Matrix {
 public:
  explicit Matrix(size_t n) : n_(n), values_(n * n) {}
  double& at(size_t row, size_t column) { return values_[row * n_ + column]; }
  double at(size_t row, size_t column) const { return values_[row * n_ + column]; }
  size_t size() const { return n_; }

  // In place. False: there is no inverse. Rows need not be exchanged: the diagonal is what is
  // greatest as long as each call ends (an M-matrix).
  bool invert() {
    for (size_t k = 0; k < n_; k++) {
      const double pivot = at(k, k);
      if (!(pivot > kLeastPivot)) return false;
      at(k, k) = 1;
      double* row = &at(k, 0);
      for (size_t j = 0; j < n_; j++) row[j] /= pivot;
      for (size_t i = 0; i < n_; i++) {
        if (i == k) continue;
        double* other = &at(i, 0);
        const double factor = std::exchange(other[k], 0);
        if (factor == 0) continue;
        for (size_t j = 0; j < n_; j++) other[j] -= factor * row[j];
      }
    }
    return true;
  }

 private:
  size_t n_;
  std::vector<double> values_;
};

// I - P, where P is by caller and callee, and its inverse Z as far as it is needed.
class CircleSolver {
 public:
  CircleSolver(const std::vector<CircleCall>& calls, const std::vector<double>& own)
      : own_(own), rows_(own.size()), place_(own.size()), is_eliminated_(own.size()) {
    for (size_t f = 0; f < rows_.size(); f++) rows_[f][f].out = 1;
    for (const CircleCall& call : calls) {
      rows_[call.caller][call.callee].out -= call.for_each;
      rows_[call.callee][call.caller].in -= call.for_each;
    }
    for (size_t f = 0; f < rows_.size(); f++) rows_[f][f].in = rows_[f][f].out;
  }

  std::optional<CircleCosts> solve() {
    if (!eliminate()) return std::nullopt;
    std::vector<size_t> rest;
    for (size_t f = 0; f < rows_.size(); f++) {
      if (is_eliminated_[f]) continue;
      place_[f] = rest.size();
      rest.push_back(f);
    }
    if (rest.size() > kMostDense) return std::nullopt;
    Matrix dense(rest.size());
    for (const size_t f : rest)
      for (const auto& [other, pair] : rows_[f]) dense.at(place_[f], place_[other]) = pair.out;
    if (!dense.invert()) return std::nullopt;
    CircleCosts costs{std::vector<double>(rows_.size()), std::vector<double>(rows_.size())};
    for (const size_t f : rest) {
      for (const size_t other : rest)
        costs.of_call[f] += dense.at(place_[f], place_[other]) * own_[other];
      costs.calls_within[f] = dense.at(place_[f], place_[f]);
    }
    for (size_t i = order_.size(); i-- > 0;) go_back(order_[i], dense, costs);
    return costs;
  }

 private:
  // The values of a row and of the column of the same number, where either is there.
  struct Pair {
    double out = 0;  // a(f, other)
    double in = 0;   // a(other, f)
  };
  // One that is eliminated: those of its neighbours that were not, when it was.
  struct Neighbour {
    size_t f;
    double upper;      // a(k, f) / pivot
    double lower;      // a(f, k) / pivot
    double z_out = 0;  // Z(k, f)
    double z_in = 0;   // Z(f, k)
  };
  struct Eliminated {
    size_t k;
    double pivot;
    std::vector<Neighbour> neighbours;  // by number
  };

  bool eliminate() {
    using Degree = std::pair<size_t, size_t>;  // and who has it
    std::priority_queue<Degree, std::vector<Degree>, std::greater<>> queue;
    for (size_t f = 0; f < rows_.size(); f++) queue.emplace(rows_[f].size() - 1, f);
    for (; !queue.empty(); queue.pop()) {
      const auto [degree, k] = queue.top();
      if (degree > kMostNeighbours) break;
      if (is_eliminated_[k] || degree != rows_[k].size() - 1) continue;
      if (!eliminate(k)) return false;
      for (const Neighbour& n : order_.back().neighbours) queue.emplace(rows_[n.f].size() - 1, n.f);
    }
    return true;
  }

  bool eliminate(size_t k) {
    const double pivot = rows_[k][k].out;
    if (!(pivot > kLeastPivot)) return false;
    Eliminated done{k, pivot, {}};
    for (const auto& [f, pair] : rows_[k])
      if (f != k) done.neighbours.push_back({f, pair.out / pivot, pair.in / pivot});
    for (const Neighbour& row : done.neighbours) {
      own_[row.f] -= row.lower * own_[k];
      rows_[row.f].erase(k);
      for (const Neighbour& column : done.neighbours) {
        const double change = row.lower * pivot * column.upper;
        rows_[row.f][column.f].out -= change;
        rows_[column.f][row.f].in -= change;
      }
    }
    rows_[k].clear();
    is_eliminated_[k] = true;
    place_[k] = order_.size();
    order_.push_back(std::move(done));
    return true;
  }

  // Two neighbours of one that was eliminated are neighbours since then.
  double z(size_t row, size_t column, const Matrix& dense, const CircleCosts& costs) const {
    if (row == column) return costs.calls_within[row];
    const bool in_dense = !is_eliminated_[row] && !is_eliminated_[column];
    if (in_dense) return dense.at(place_[row], place_[column]);
    const bool row_first =
        is_eliminated_[row] && (!is_eliminated_[column] || place_[row] < place_[column]);
    const size_t first = row_first ? row : column, second = row_first ? column : row;
    const auto& neighbours = order_[place_[first]].neighbours;
    const auto found = std::ranges::lower_bound(neighbours, second, {}, &Neighbour::f);
    return row_first ? found->z_out : found->z_in;
  }

  // The inverse at this one's row and column, from those of its neighbours.
  void go_back(Eliminated& e, const Matrix& dense, CircleCosts& costs) {
    double cost = own_[e.k] / e.pivot, within = 1 / e.pivot;
    for (Neighbour& n : e.neighbours) {
      for (const Neighbour& other : e.neighbours) {
        n.z_out -= other.upper * z(other.f, n.f, dense, costs);
        n.z_in -= z(n.f, other.f, dense, costs) * other.lower;
      }
      cost -= n.upper * costs.of_call[n.f];
    }
    for (const Neighbour& n : e.neighbours) within -= n.upper * n.z_in;
    costs.of_call[e.k] = cost;
    costs.calls_within[e.k] = within;
  }

  std::vector<double> own_;
  std::vector<std::map<size_t, Pair>> rows_;  // of those that are not eliminated
  std::vector<size_t> place_;                 // in order_, or in the dense matrix
  std::vector<bool> is_eliminated_;
  std::vector<Eliminated> order_;
};

}  // namespace

std::optional<CircleCosts> solve_call_circle(const std::vector<CircleCall>& calls,
                                             const std::vector<double>& own) {
  return CircleSolver(calls, own).solve();
}

}  // namespace shadowprof::profile
