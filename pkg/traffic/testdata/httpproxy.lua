-- SPDX-FileCopyrightText: The Weir Authors
-- SPDX-License-Identifier: Apache-2.0
--
-- HTTPProxy of Contour: a share by weights, headers and paths by conditions.

local spec = obj.data.spec

local function copy(value)
    if type(value) ~= "table" then
        return value
    end
    local twin = {}
    for key, entry in pairs(value) do
        twin[key] = copy(entry)
    end
    return twin
end

-- leads returns the service of a route that is the stable one.
local function leads(route)
    for _, service in ipairs(route.services or {}) do
        if service.name == obj.stableService then
            return service
        end
    end
end

local function conditions(match)
    local all = {}
    if match.path then
        if match.path.type == "RegularExpression" then
            error("HTTPProxy cannot match a path by a regular expression", 0)
        end
        local key = match.path.type == "Exact" and "exact" or "prefix"
        table.insert(all, { [key] = match.path.value })
    end
    for _, header in ipairs(match.headers or {}) do
        local how = header.type == "RegularExpression" and "regex" or "exact"
        table.insert(all, { header = { name = header.name, [how] = header.value } })
    end
    for _, query in ipairs(match.queryParams or {}) do
        local how = query.type == "RegularExpression" and "regex" or "exact"
        table.insert(all, { queryParameter = { name = query.name, [how] = query.value } })
    end
    return all
end

if obj.matches then
    local first = {}
    for _, match in ipairs(obj.matches) do
        for _, route in ipairs(spec.routes) do
            local service = leads(route)
            if service then
                local twin = copy(route)
                local to = copy(service)
                to.name = obj.canaryService
                to.weight = nil
                twin.services = { to }
                twin.conditions = match.path and {} or copy(route.conditions or {})
                for _, condition in ipairs(conditions(match)) do
                    table.insert(twin.conditions, condition)
                end
                if obj.requestHeaderModifier then
                    twin.requestHeadersPolicy = {
                        set = obj.requestHeaderModifier.set,
                        remove = obj.requestHeaderModifier.remove,
                    }
                end
                table.insert(first, twin)
            end
        end
    end
    for _, route in ipairs(spec.routes) do
        table.insert(first, route)
    end
    spec.routes = first
end

if obj.canaryWeight ~= -1 then
    for _, route in ipairs(spec.routes) do
        local service = leads(route)
        if service then
            local to = copy(service)
            to.name = obj.canaryService
            to.weight = obj.canaryWeight
            service.weight = obj.stableWeight
            table.insert(route.services, to)
        end
    end
end

return obj.data
