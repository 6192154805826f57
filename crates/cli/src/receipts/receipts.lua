-- Runs a command, unless its receipt says that an earlier call did, and updates the receipt in the same step.
-- KEYS: the key, the receipt. ARGV: the position of the command's first item in the input of the run, the position after
-- its last item, the receipt's time to live in milliseconds, the command, and its words after the key.
-- The receipt contains three numbers: the items that are done, those that were removed, and those whose removal was refused.
-- Returns the last two for a removal, and otherwise the command's reply, or an empty list if an earlier call ran it.
local FIRST_WORD = 5
local key, receipt = KEYS[1], KEYS[2]
local from, to, lease, command = unpack(ARGV, 1, 4)
local held = redis.call('GET', receipt)
if not held and from == '0' then
    -- Before the command, so that a user who lacks a permission changes nothing. A refused command leaves a receipt for 1 ms.
    held = '0 0 0'
    redis.call('SET', receipt, held, 'PX', 1)
    if command == 'BF.MDEL' then
        redis.call('BF.MEXISTS', key, ARGV[FIRST_WORD])
    end
end
local numbers = {string.match(held or '0 0 0', '^(%d+) (%d+) (%d+)$')}
local done, removed, refused = tonumber(numbers[1]), tonumber(numbers[2]), tonumber(numbers[3])
if not done then
    return redis.error_reply('ERR key does not hold a receipt')
elseif done < tonumber(to) and done ~= tonumber(from) then
    return redis.error_reply('FORGOTTEN answers are known from 0 to ' .. numbers[1])
end
local reply = {}
if done < tonumber(to) then
    if command == 'CF.DEL' then
        for index = FIRST_WORD, #ARGV do
            removed = removed + redis.call(command, key, ARGV[index])
        end
    elseif command == 'BF.MDEL' then
        local left = {}
        for index, is_removed in ipairs(redis.call(command, key, unpack(ARGV, FIRST_WORD))) do
            if is_removed == 1 then
                removed = removed + 1
            else
                left[#left + 1] = ARGV[FIRST_WORD + index - 1]
            end
        end
        if #left > 0 then
            for _, is_claimed in ipairs(redis.call('BF.MEXISTS', key, unpack(left))) do
                refused = refused + is_claimed
            end
        end
    else
        reply = redis.call(command, key, unpack(ARGV, FIRST_WORD))
    end
    redis.call('SET', receipt, to .. ' ' .. removed .. ' ' .. refused, 'PX', lease)
end
if command == 'CF.DEL' or command == 'BF.MDEL' then
    return {removed, refused}
end
return reply
