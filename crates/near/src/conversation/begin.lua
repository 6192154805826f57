-- Creates a value under a temporary key, unless it is there: the reply to an earlier call was lost.
-- KEYS: the temporary key. ARGV: its time to live, the command that creates the value, and the words after the key.
-- The first call also fails where a time to live is not permitted, before there is a key that would never expire.
if redis.call('PEXPIRE', KEYS[1], ARGV[1]) == 1 then
    return 1
end
redis.call(ARGV[2], KEYS[1], unpack(ARGV, 3))
return redis.call('PEXPIRE', KEYS[1], ARGV[1])
