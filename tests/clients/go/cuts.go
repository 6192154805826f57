package main

import (
	"errors"
	"fmt"
	"math/rand"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Adds items with receipts through a proxy that cuts connections: before a command, after it, and within its reply. The
// client sends again as often as by default. Each item has to be new to one caller, and is counted as often as it was
// added.
func cuts(c, cut *redis.Client) {
	for key, options := range map[string][]any{"plain": nil, "counting": {"COUNTING"}} {
		// A false positive is improbable.
		gives[any]("OK")(c.Do(ctx, append([]any{"BF.RESERVE", key, 1e-9, 10000}, options...)...).Result())
		var all sync.Mutex
		var callers sync.WaitGroup
		sent, told := map[string]int{}, map[string]int{}
		for number := range 8 {
			callers.Add(1)
			go func() {
				defer callers.Done()
				chance := rand.New(rand.NewSource(int64(number)))
				for position := 0; position < 400; {
					words := []any{"BF.INSERT", key, "ONCE", fmt.Sprintf("{%s}:%d", key, number), position, "ITEMS"}
					batch := make([]string, 1+chance.Intn(20))
					for at := range batch {
						batch[at] = fmt.Sprint("item ", chance.Intn(2000))
						words = append(words, batch[at])
					}
					answers, err := cut.Do(ctx, words...).Slice()
					// It has sent the command again in vain.
					for reply := redis.Error(nil); err != nil && !errors.As(err, &reply); {
						answers, err = cut.Do(ctx, words...).Slice()
					}
					all.Lock()
					holds(err == nil && len(answers) == len(batch), err)
					for at, answer := range answers {
						sent[batch[at]]++
						// In RESP3, answers are booleans.
						if answer == int64(1) || answer == true {
							told[batch[at]]++
						}
					}
					all.Unlock()
					position += len(batch)
				}
			}()
		}
		callers.Wait()
		gives(int64(len(sent)))(c.BFCard(ctx, key).Result())
		for item, times := range sent {
			holds(told[item] == 1, item)
			if options != nil {
				gives[any](int64(times))(c.Do(ctx, "BF.COUNT", key, item).Result())
			}
		}
	}
}
