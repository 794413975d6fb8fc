-- SPDX-FileCopyrightText: The Weir Authors
-- SPDX-License-Identifier: Apache-2.0
--
-- TrafficSplit of the Service Mesh Interface: weights, and nothing else.

if obj.matches ~= nil then
    error("TrafficSplit cannot match requests")
end
if obj.canaryWeight == -1 then
    obj.canaryWeight, obj.stableWeight = 0, 100
end
obj.data.spec.backends = {
    { service = obj.stableService, weight = obj.stableWeight },
    { service = obj.canaryService, weight = obj.canaryWeight },
}
return obj.data
