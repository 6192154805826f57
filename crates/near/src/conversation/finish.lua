-- Gives the complete value of a temporary key its name, or merges it into the value there. The temporary key becomes a
-- mark, by which a repetition of this call is known: its reply was lost. Returns "none", or the type of the value that is
-- in the way.
-- KEYS: the temporary key, the key. ARGV: the time to live of the mark; the command that merges, or ''; the command that
-- sets the time to live, or '', and PEXPIRE for a merge; its argument, or ''; the types that may be replaced.
local unfinished, key = KEYS[1], KEYS[2]
local lease, merge, expire, time = unpack(ARGV, 1, 4)
local kind = redis.call('TYPE', unfinished)['ok']
if kind == 'string' then
    return 'none'
elseif kind == 'none' then
    return redis.error_reply('ERR the temporary key is gone: it expired, or was deleted or evicted')
end
kind = redis.call('TYPE', key)['ok']
if kind ~= 'none' and merge ~= '' then
    -- The time to live stays, unless there is a new one. One of 0 has less than a millisecond left.
    if time == '' then
        time = redis.call('PTTL', key)
        time = time >= 0 and math.max(time, 1)
    end
    -- First on the temporary key: a merge that was not permitted to end so would stay, and be repeated.
    if time then
        redis.call('PEXPIRE', unfinished, lease)
    end
    if merge == 'CMS.MERGE' then
        redis.call(merge, key, 2, key, unfinished)
    elseif merge == 'TDIGEST.MERGE' then
        redis.call(merge, key, 1, unfinished)
    else
        redis.call(merge, key, unfinished)
    end
    if time then
        redis.call('PEXPIRE', key, time)
    end
else
    local is_kept = kind ~= 'none'
    for number = 5, #ARGV do
        is_kept = is_kept and ARGV[number] ~= kind
    end
    if is_kept then
        return kind
    elseif expire == '' then
        redis.call('PERSIST', unfinished)
    else
        redis.call(expire, unfinished, time)
    end
    -- A time that is over has deleted it, so it would also end the value that is replaced.
    if redis.call('TYPE', unfinished)['ok'] ~= 'none' then
        local renamed = redis.pcall('RENAME', unfinished, key)
        if renamed['err'] then
            redis.pcall('PEXPIRE', unfinished, lease)
            return renamed
        end
    elseif kind ~= 'none' then
        redis.call('UNLINK', key)
    end
end
-- A user who may not call SET has no mark. Nothing may fail any more: the value is in place.
if redis.pcall('SET', unfinished, '', 'PX', lease)['err'] then
    redis.pcall('PEXPIRE', unfinished, 0)
end
return 'none'
