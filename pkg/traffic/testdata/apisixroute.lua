-- SPDX-FileCopyrightText: The Weir Authors
-- SPDX-License-Identifier: Apache-2.0
--
-- ApisixRoute: a share by weights of backends, matches by expressions of a rule
-- that comes first.

local operators = { Exact = "Equal", RegularExpression = "RegexMatch" }

local function stable(rule)
    for _, backend in ipairs(rule.backends) do
        if backend.serviceName == obj.stableService then
            return backend
        end
    end
end

local function expressions(scope, list)
    local all = {}
    for _, entry in ipairs(list or {}) do
        local subject = { scope = scope, name = entry.name }
        all[#all + 1] = { subject = subject, op = operators[entry.type or "Exact"], value = entry.value }
    end
    return all
end

local added = {}
for _, rule in ipairs(obj.data.spec.http) do
    local backend = stable(rule)
    if backend and obj.matches then
        for i, match in ipairs(obj.matches) do
            if match.path then
                error(string.format("matches[%d].path: this script matches headers and query parameters", i - 1), 0)
            end
            local exprs = expressions("Header", match.headers)
            for _, query in ipairs(expressions("Query", match.queryParams)) do
                exprs[#exprs + 1] = query
            end
            added[#added + 1] = {
                name = rule.name .. "-canary-" .. i,
                priority = (rule.priority or 0) + 1,
                match = { hosts = rule.match.hosts, paths = rule.match.paths, exprs = exprs },
                backends = { { serviceName = obj.canaryService, servicePort = backend.servicePort } },
            }
        end
    end
    if backend and tonumber(obj.canaryWeight) >= 0 then
        backend.weight = obj.stableWeight
        table.insert(rule.backends, {
            serviceName = obj.canaryService, servicePort = backend.servicePort, weight = obj.canaryWeight,
        })
    end
end
for _, rule in ipairs(added) do
    table.insert(obj.data.spec.http, rule)
end
obj.data.annotations["example.com/canary"] = obj.canaryService

return obj.data
