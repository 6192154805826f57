redis.call(ARGV[1], KEYS[1], 1, ARGV[2])
return redis.call('PEXPIRE', KEYS[1], ARGV[3])
