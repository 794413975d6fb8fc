-- SPDX-FileCopyrightText: The Weir Authors
-- SPDX-License-Identifier: Apache-2.0
--
-- An Ingress of Aliyun's ALB whose matches are conditions: cookies, addresses of
-- clients, and headers, each with values apart by commas.

local prefix = "alb.ingress.kubernetes.io/"
local condition = prefix .. "conditions." .. obj.canaryService

local function split(text)
    local parts = {}
    for part in string.gmatch(text, "[^,]+") do
        parts[#parts + 1] = part
    end
    return parts
end

local kinds = {
    Cookie = function(header)
        local values = {}
        for _, pair in ipairs(split(header.value)) do
            local key, value = string.match(pair, "^(.-)=(.*)$")
            values[#values + 1] = { key = key, value = value }
        end
        return { type = "Cookie", cookieConfig = { values = values } }
    end,
    SourceIp = function(header)
        return { type = "SourceIp", sourceIpConfig = { values = split(header.value) } }
    end,
}

local annotations = obj.annotations
annotations[prefix .. "canary"] = "true"
annotations[prefix .. "order"] = "1"
annotations[prefix .. "canary-weight"] = nil
annotations[condition] = nil
if obj.weight ~= "-1" then
    annotations[prefix .. "canary-weight"] = obj.weight
end
if obj.matches then
    local all = {}
    for _, match in ipairs(obj.matches) do
        for _, header in ipairs(match.headers) do
            local make = kinds[header.name]
            if make then
                all[#all + 1] = make(header)
            else
                all[#all + 1] = {
                    type = "Header", headerConfig = { key = header.name, values = split(header.value) },
                }
            end
        end
    end
    annotations[condition] = json.encode(all)
end
return annotations
