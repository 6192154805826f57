-- Creates a value under a temporary key, unless it is there: the reply to an earlier call was lost.
-- KEYS: the temporary key. ARGV: its time to live, the command that creates the value, and the words after the key.
if redis.call('EXISTS', KEYS[1]) == 0 then
    redis.call(ARGV[2], KEYS[1], unpack(ARGV, 3))
end
return redis.call('PEXPIRE', KEYS[1], ARGV[1])
