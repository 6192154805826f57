module program

go 1.23
