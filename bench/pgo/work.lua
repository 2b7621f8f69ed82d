-- SPDX-License-Identifier: MIT
-- Work for Lua's interpreter: calls, tables, strings, closures. Arguments: how much, and a seed.
local amount, seed = tonumber(arg[1]), tonumber(arg[2])

local function random()
  seed = (seed * 1103515245 + 12345) % 2147483648
  return seed
end

local function fibonacci(n)
  if n < 2 then return n end
  return fibonacci(n - 1) + fibonacci(n - 2)
end

local function sort_numbers(n)
  local t = {}
  for i = 1, n do t[i] = random() % 100000 end
  table.sort(t, function(a, b) return a < b end)
  return t[1] + t[n]
end

local function count_words(n)
  local words = {}
  for _ = 1, n do
    local w = string.char(97 + random() // 7 % 26, 97 + random() // 7 % 26)
    words[w] = (words[w] or 0) + 1
  end
  local lines = {}
  for w, c in pairs(words) do lines[#lines + 1] = w .. "=" .. c end
  table.sort(lines)
  return #table.concat(lines, ",")
end

local Point = {}
Point.__index = Point
function Point.new(x, y) return setmetatable({x = x, y = y}, Point) end
function Point:add(other) return Point.new(self.x + other.x, self.y + other.y) end

local function walk(n)
  local p = Point.new(0, 0)
  for i = 1, n do p = p:add(Point.new(i % 3, i % 5)) end
  return p.x * 31 + p.y
end

local function sieve(n)
  local composite, primes = {}, 0
  for i = 2, n do
    if not composite[i] then
      primes = primes + 1
      for j = i * i, n, i do composite[j] = true end
    end
  end
  return primes
end

for _ = 1, amount do
  print(fibonacci(25), sort_numbers(20000), count_words(40000), walk(120000), sieve(150000))
end
