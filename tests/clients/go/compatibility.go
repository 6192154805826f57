// Decodes raw replies as strictly as rueidis and valkey-go do in their layers that are compatible with go-redis: every
// field is an integer, and a value of another type is an error. Those modules can't be fetched here.
package main

import (
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"
)

func integer(value any) (int64, error) {
	switch value := value.(type) {
	case int64:
		return value, nil
	case string:
		return strconv.ParseInt(value, 0, 64)
	}
	return 0, fmt.Errorf("%T is not an integer", value)
}

func boolean(value any) (bool, error) {
	switch value := value.(type) {
	case bool:
		return value, nil
	case int64:
		return value == 1, nil
	}
	return false, fmt.Errorf("%T is not a boolean", value)
}

func float(value any) (float64, error) {
	switch value := value.(type) {
	case float64:
		return value, nil
	case int64:
		return float64(value), nil
	case string:
		return strconv.ParseFloat(value, 64)
	}
	return 0, fmt.Errorf("%T is not a float", value)
}

// A null is the empty string.
func text(value any) (string, error) {
	switch value := value.(type) {
	case string:
		return value, nil
	case nil:
		return "", nil
	}
	return "", fmt.Errorf("%T is not a string", value)
}

func list[Value any](read func(any) (Value, error)) func(any) ([]Value, error) {
	return func(reply any) (values []Value, err error) {
		elements, ok := reply.([]any)
		if !ok {
			return nil, fmt.Errorf("%T is not an array", reply)
		}
		for _, element := range elements {
			value, err := read(element)
			if err != nil {
				return nil, err
			}
			values = append(values, value)
		}
		return values, nil
	}
}

// Reads a map, or an array of names and values.
func fields[Value any](read func(any) (Value, error), reply any) (map[string]Value, error) {
	if array, ok := reply.([]any); ok && len(array)%2 == 0 {
		pairs := map[any]any{}
		for i := 0; i < len(array); i += 2 {
			pairs[array[i]] = array[i+1]
		}
		reply = pairs
	}
	pairs, ok := reply.(map[any]any)
	if !ok {
		return nil, fmt.Errorf("%v is not a map", reply)
	}
	values := map[string]Value{}
	for name, value := range pairs {
		name, err := text(name)
		if err != nil {
			return nil, err
		}
		if values[name], err = read(value); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return values, nil
}

func compatibility(c *redis.Client, protocol int, likeRedisBloom bool) {
	send := func(words ...any) any {
		reply, err := c.Do(ctx, words...).Result()
		if err != nil {
			return err
		}
		return reply
	}
	gives("OK")(text(send("BF.RESERVE", "bf", 0.01, 100)))
	gives(true)(boolean(send("BF.ADD", "bf", "item")))
	insertion := send("BF.INSERT", "bf", "ERROR", 0.5, "NOCREATE", "ITEMS", "item", "other")
	gives([]bool{false, true})(list(boolean)(insertion))
	gives([]bool{true, false})(list(boolean)(send("BF.MEXISTS", "bf", "item", "none")))
	items, capacities := map[string]int64{"bf": 2}, map[string]int64{"bf": 100}
	if !likeRedisBloom {
		gives("OK")(text(send("BF.RESERVE", "window", 0.01, 100, "WINDOW", 60000, "PERIODS", 2)))
		gives("OK")(text(send("BF.RESERVE", "counting", 0.01, 100, "COUNTING")))
		gives("OK")(text(send("BF.RESERVE", "scaled", 0.01, 10, "SCALETO", 100)))
		items["window"], items["counting"], items["scaled"] = 0, 0, 0
		capacities["window"], capacities["counting"], capacities["scaled"] = 300, 100, 100
	}
	for key, count := range items {
		info, err := fields(integer, send("BF.INFO", key))
		gives(map[string]int64{
			"Capacity": capacities[key], "Size": info["Size"], "Number of filters": 1, "Number of items inserted": count,
			"Expansion rate": 2,
		})(info, err)
		if protocol == 3 {
			gives(map[string]int64{"Size": info["Size"]})(fields(integer, send("BF.INFO", key, "SIZE")))
		}
	}

	gives("OK")(text(send("CF.RESERVE", "cf", 1000)))
	gives([]bool{true, true})(list(boolean)(send("CF.INSERT", "cf", "ITEMS", "item", "item")))
	gives([]int64{0, 1})(list(integer)(send("CF.INSERTNX", "cf", "ITEMS", "item", "other")))
	gives(map[string]int64{
		"Size": 1080, "Number of buckets": 512, "Number of filters": 1, "Number of items inserted": 3,
		"Number of items deleted": 0, "Bucket size": 2, "Expansion rate": 1, "Max iterations": 20,
	})(fields(integer, send("CF.INFO", "cf")))

	gives("OK")(text(send("CMS.INITBYPROB", "cms", 0.001, 0.01)))
	gives([]int64{4})(list(integer)(send("CMS.INCRBY", "cms", "item", 4)))
	gives(map[string]int64{"width": 2000, "depth": 7, "count": 4})(fields(integer, send("CMS.INFO", "cms")))

	gives("OK")(text(send("TOPK.RESERVE", "topk", 1, 50, 4, 1)))
	gives([]string{"", "a"})(list(text)(send("TOPK.INCRBY", "topk", "a", 2, "b", 3)))
	gives([]bool{false, true})(list(boolean)(send("TOPK.QUERY", "topk", "a", "b")))
	gives(map[string]int64{"b": 3})(fields(integer, send("TOPK.LIST", "topk", "WITHCOUNT")))
	gives(map[string]float64{"k": 1, "width": 50, "depth": 4, "decay": 1})(fields(float, send("TOPK.INFO", "topk")))

	gives("OK")(text(send("TDIGEST.CREATE", "td")))
	gives("OK")(text(send("TDIGEST.ADD", "td", 1, 2.5)))
	gives(map[string]int64{
		"Compression": 100, "Capacity": 610, "Merged nodes": 0, "Unmerged nodes": 2, "Merged weight": 0,
		"Unmerged weight": 2, "Observations": 2, "Total compressions": 0, "Memory usage": 9840,
	})(fields(integer, send("TDIGEST.INFO", "td")))
	gives(2.5)(float(send("TDIGEST.MAX", "td")))
	gives([]float64{0, 1})(list(float)(send("TDIGEST.CDF", "td", 0, 3)))
	gives([]int64{-1, 1})(list(integer)(send("TDIGEST.RANK", "td", 0, 2.5)))
}
