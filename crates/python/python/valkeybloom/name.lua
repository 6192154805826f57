-- Returns the type of the key's value if the key is to be kept, else "none". With `replace`, it is followed by the types
-- that may be replaced.
local kind = redis.call('TYPE', KEYS[2])['ok']
local is_kept = kind ~= 'none'
for number = 3, #ARGV do
    is_kept = is_kept and ARGV[number] ~= kind
end
if is_kept then
    return kind
end
if ARGV[2] == '' then
    redis.call('PERSIST', KEYS[1])
else
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
redis.call('RENAME', KEYS[1], KEYS[2])
return 'none'
