-- Keeps the time to live, unless a new one is given. One of 0 has less than a millisecond left.
local ttl = ARGV[2]
if redis.call('EXISTS', KEYS[2]) == 1 then
    if ttl == '' then
        ttl = redis.call('PTTL', KEYS[2])
        if ttl == 0 then
            ttl = 1
        end
    end
    if ARGV[1] == 'CMS.MERGE' then
        redis.call(ARGV[1], KEYS[2], 2, KEYS[2], KEYS[1])
    elseif ARGV[1] == 'TDIGEST.MERGE' then
        redis.call(ARGV[1], KEYS[2], 1, KEYS[1])
    else
        redis.call(ARGV[1], KEYS[2], KEYS[1])
    end
    redis.call('DEL', KEYS[1])
else
    redis.call('PERSIST', KEYS[1])
    redis.call('RENAME', KEYS[1], KEYS[2])
end
if ttl ~= '' and tonumber(ttl) > 0 then
    redis.call('PEXPIRE', KEYS[2], ttl)
end
return 'none'
